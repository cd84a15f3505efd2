// Package reconcile makes sure that no outcome stays unknown. It runs the background jobs on River, which keeps its queue in the same
// database: work is enqueued in the transaction that creates the need for it.
//
//	sweep      leases that are over       → unknown, with the jobs that resolve them   every few seconds
//	claim      unknown keys that are due  → the jobs that resolve them                 every second or so
//	resolve    one key                    → asks the PSP, writes what that proves
//	webhook    one stored event           → brings its evidence to the key
//	scan       one account's ledger       → what webhooks and lookups have missed      every minute or so
//	evidence   one record                 → weighed again, when an operator says so
//	statement  one account's day      → a report of breaks                         every hour, what no run has judged
//	prune      what is past its time      → expired, then deleted                      every minute or so
//
// A job here decides nothing: package payments does, under guards that make every run harmless, the second one too. A job that is lost is
// made again, since what it was made for is a row that is still there. A job that fails for good becomes a dead letter, by a
// trigger on River's own table (discarded_jobs_become_letters), in the statement that gives it up.
//
// This is the only package that knows River, with the wiring in package app.
package reconcile
