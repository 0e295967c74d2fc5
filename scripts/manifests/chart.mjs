// What the Helm chart has rendered:
//
//     chart.mjs config FILE               prints the sidecar's configuration that is in it
//     chart.mjs same FILE DIRECTORY       fails unless it has the objects of the directory's files, but for labels
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { parse, parseAllDocuments } from "yaml";

const objects = (file) =>
  parseAllDocuments(readFileSync(file, "utf8"))
    .map((document) => document.toJS())
    .filter((object) => object?.kind && object.kind !== "Kustomization");

// Without what a release has and plain files have not, and with an image of one name.
function bare(value) {
  if (Array.isArray(value)) return value.map(bare);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(
    ([key]) => key !== "app.kubernetes.io/instance" && key !== "imagePullPolicy",
  );
  return Object.fromEntries(entries.map(([key, value]) => [key, key === "image" ? "sluice" : bare(value)]));
}

// The first place at which two values differ.
function difference(one, other, path = "") {
  if (isDeepStrictEqual(one, other)) return undefined;
  const areMaps = [one, other].every((value) => value !== null && typeof value === "object");
  if (!areMaps) return `${path}: ${JSON.stringify(one)} here, ${JSON.stringify(other)} there`;
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    const found = difference(one[key], other[key], `${path}.${key}`);
    if (found) return found;
  }
}

const [command, file, directory] = process.argv.slice(2);
const rendered = objects(file);
const config = rendered.find((object) => object.kind === "ConfigMap").data["sluice.yaml"];
if (command === "config") {
  process.stdout.write(config);
} else {
  const problems = [];
  for (const name of readdirSync(directory).filter((name) => name.endsWith(".yaml"))) {
    if (name === "sluice.yaml") {
      const plain = parse(readFileSync(join(directory, name), "utf8"));
      problems.push(difference(parse(config), plain, "sluice.yaml"));
      continue;
    }
    for (const plain of objects(join(directory, name))) {
      const same = rendered.find(
        (object) => object.kind === plain.kind && object.metadata.name === plain.metadata.name,
      );
      problems.push(difference(bare(same?.spec), bare(plain.spec), `${name}: spec`));
    }
  }
  const found = problems.filter(Boolean);
  for (const problem of found) console.error(`the chart is not what ${directory} is: ${problem}`);
  // A directory that was read wrongly must not pass for one that is the same.
  process.exit(problems.length >= 7 && found.length === 0 ? 0 : 1);
}
