// Runs the collection as newman does, and saves each answer in it as the example of its request.
// Usage: node examples.js <collection> <baseUrl> <operatorUrl> <pspUrl>
//
// Written are a green run only, the standard addresses, and no API key. Pages and files of more than 4 KiB are left out.
const fs = require("node:fs")
const newman = require("newman")

const [file, ...urls] = process.argv.slice(2)
const variables = ["baseUrl", "operatorUrl", "pspUrl"]
const standard = ["http://localhost:8080", "http://localhost:8081", "http://localhost:8082"]
const longest = 4096
const kept = new Set([
	"allow", "content-type", "etag", "idempotency-key", "idempotency-key-expires", "idempotent-replayed", "location", "preference-applied",
	"retry-after", "www-authenticate", "x-request-id",
])
const languages = [[/json/, "json"], [/html/, "html"], [/javascript/, "javascript"], [/yaml/, "yaml"]]

const collection = JSON.parse(fs.readFileSync(file, "utf8"))
const flat = (items) => items.flatMap((item) => item.item ? flat(item.item) : [item])
const items = flat(collection.item)

const replaceAll = (text, from, to) => from.reduce((t, _, i) => t.replaceAll(from[i], to[i]), text)
const toVariable = (text) => replaceAll(text, urls, variables.map((name) => `{{${name}}}`))

// asSent is the request with what the variables held, so that the example is of one piece.
const asSent = (request, written) => ({
	method: request.method,
	header: request.headers.filter((h) => written.header.some((w) => w.key === h.key)).map(({ key, value }) => ({ key, value })),
	...(written.body && request.body && { body: { ...written.body, raw: request.body.raw } }),
	url: toVariable(request.url.toString()),
})

newman.run({
	collection,
	envVar: variables.map((key, i) => ({ key, value: urls[i] })),
	reporters: "cli",
}).on("request", (error, { request, response, cursor }) => {
	if (error) return // the run is not green then
	const item = items[cursor.position]
	const type = response.headers.get("Content-Type") ?? ""
	const body = response.text()
	item.response = [{
		name: `${response.code} ${response.reason()}`,
		originalRequest: asSent(request, item.request),
		status: response.reason(),
		code: response.code,
		_postman_previewlanguage: (languages.find(([pattern]) => pattern.test(type)) ?? [, "text"])[1],
		header: response.headers.filter((h) => kept.has(h.key.toLowerCase())).map(({ key, value }) => ({ key, value })),
		cookie: [],
		body: body.length > longest && !type.includes("json") ? "" : replaceAll(body, urls, standard),
	}]
}).on("done", (error, { run }) => {
	if (error || run.failures.length > 0) process.exit(1)
	fs.writeFileSync(file, JSON.stringify(collection, null, 2) + "\n")
})
