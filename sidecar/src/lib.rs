//! Sluice's sidecar: answers the filter's questions by running one Lua script in Redis.
