// Writes each Kubernetes object of a directory as a TypeScript constant of its kind's type, and has the compiler look.
// An object literal with a property that its type doesn't know is an error to it.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { parseAllDocuments } from "yaml";

const here = dirname(fileURLToPath(import.meta.url));
const root = process.argv[2];
const packages = [
  "kubernetes-models",
  "@kubernetes-models/istio",
  "@kubernetes-models/prometheus-operator",
  "@kubernetes-models/envoy-gateway",
  "@kubernetes-models/gateway-api",
];

// The module that has a kind's type, such as kubernetes-models/apps/v1/Deployment, or nothing.
function moduleOf(apiVersion, kind) {
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  // Some packages leave `.k8s.io` in the directory's name, and the core group has none.
  for (const name of packages) {
    const path = [name, group, version, kind].filter(Boolean).join("/");
    if (existsSync(join(here, "node_modules", `${path}.d.ts`))) return path;
  }
}

const out = join(here, "objects");
rmSync(out, { recursive: true, force: true });
mkdirSync(out);
// The fields of a type and no more. Istio's types are unions, within which the compiler is lenient with unknown ones.
writeFileSync(
  join(out, "known.d.ts"),
  `type Keys<T> = T extends unknown ? keyof T : never;
  type Value<T, K> = T extends unknown ? (K extends keyof T ? T[K] : never) : never;
  export type Known<T> = [T] extends [string | number | boolean | null | undefined] ? T
    : NonNullable<T> extends ReadonlyArray<infer U> ? Array<Known<U>>
    : { [K in Keys<NonNullable<T>>]?: Known<Value<NonNullable<T>, K>> };`,
);
const files = new Map();
const problems = [];
for (const entry of readdirSync(root, { recursive: true })) {
  if (!entry.endsWith(".yaml")) continue;
  // The demo's files have names between @ signs in place of ports.
  const text = readFileSync(join(root, entry), "utf8").replaceAll(/@[A-Z_]+@/g, "1024");
  parseAllDocuments(text).forEach((document, index) => {
    for (const error of document.errors) problems.push(`${entry}: ${error.message}`);
    const value = document.toJS();
    // Kustomizations are none of a cluster's objects: kustomize itself reads them.
    if (!value?.apiVersion || !value.kind || value.kind === "Kustomization") return;
    const module = moduleOf(value.apiVersion, value.kind);
    if (!module) {
      problems.push(`${entry}: nothing is known of ${value.apiVersion} ${value.kind}`);
      return;
    }
    const { apiVersion, kind, ...rest } = value;
    const literal = JSON.stringify(rest, null, 2);
    const source = [
      `import type { I${kind} } from "${module}";`,
      `import type { Known } from "./known.d.ts";`,
      `type Kind = Omit<I${kind}, "apiVersion" | "kind">;`,
      `export const object: Kind = ${literal};`,
      `export const known: Known<Kind> = ${literal};`,
    ].join("\n");
    const file = join(out, `${entry.replaceAll("/", "-")}-${index}.ts`);
    writeFileSync(file, source);
    files.set(file, `${join(root, entry)}: ${kind} ${value.metadata?.name}`);
  });
}

const program = ts.createProgram([...files.keys()], {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  target: ts.ScriptTarget.ESNext,
  types: [],
});
for (const { file, start, messageText } of ts.getPreEmitDiagnostics(program)) {
  const message = ts.flattenDiagnosticMessageText(messageText, "\n  ");
  const line = file?.text.split("\n")[file.getLineAndCharacterOfPosition(start).line].trim();
  problems.push(`${files.get(file?.fileName) ?? relative(here, file?.fileName ?? "?")}: at ${line}\n  ${message}`);
}
// What both constants are wrong about is told once.
for (const problem of new Set(problems)) console.error(problem);
// A type that could not be found would be `any`, and allow everything: so that must not have gone unnoticed.
if (files.size === 0) problems.push("no objects");
console.log(`${root}: ${files.size} Kubernetes objects, ${problems.length} problems`);
process.exit(problems.length === 0 ? 0 : 1);
