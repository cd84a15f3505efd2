// Pays what comes on standard input, by the caller that is named: one line for each payment, and one for its outcome.
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

const name = process.argv[2];
const pin = JSON.parse(readFileSync("package.json")).dependencies[name];
const { pay } = await import(`./${name}.mjs`);
const say = (line) => console.log(JSON.stringify(line));
const tell = (status, body) => ({ status, body: typeof body === "string" ? body : JSON.stringify(body) });

say({ version: pin ?? process.version.slice(1) });
for await (const line of createInterface({ input: process.stdin })) {
  const [token, key, body] = line.split("\t");
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": key };
  try {
    say({ key, ...tell(...(await pay(process.env.URL, headers, body))) });
  } catch (error) {
    // Where the libraries put the status of an answer that they take for an error.
    const status = error.response?.statusCode ?? error.response?.status ?? error.status ?? error.statusCode;
    say({ key, status, error: `${error.name} ${error.cause?.code ?? error.code ?? ""} ${error.message}` });
  }
}
process.exit(0); // some keep connections open, and with them the process
