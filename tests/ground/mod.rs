//! What the other tests stand on does what it says: a proxy that loses nothing, or a failover that is none, would let
//! them pass for nothing.

mod proxy;
mod servers;
