// Package world runs Payonce as it is run in earnest: the programs of cmd, unchanged, each a process of its own, on a
// real PostgreSQL, with the mock PSP as another process. It is what the proofs below lab have in common.
//
//	             httpproxy                pgproxy
//	clients ───► api ─────────────────────────────────► PostgreSQL
//	              │  └── httpproxy ───► mockpsp            ▲
//	              ▲                        │               │
//	              └─ webhooks ─ httpproxy ─┘   reconciler ─┴─► (its own two proxies)
//
// Each process has a proxy of its own before the database and before the PSP, so that a network failure can be one
// process's alone, and so that a statement can be told from the same statement of somebody else. Webhooks go through
// one proxy before all APIs, which take turns, as behind a load balancer.
//
// A world speaks one dialect with its PSP, the native one or that of Stripe (Plan.PSP). Names of calls say what a call
// is for, whatever the dialect (dialect.go).
//
// A Site is one PostgreSQL server with the programs; a World is one database on it, cloned from a migrated template,
// with what runs on it. Worlds of one site do not touch each other. Processes can be killed, paused and started again
// under the same address, and die with the program that started them.
//
// Times are short (see Times), in the relations that Payonce itself demands. The package refuses to know what is being
// proved.
package world
