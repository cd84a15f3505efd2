// Package reconcile makes sure that no outcome stays unknown. It runs the background jobs on River. River keeps its
// queue in the same database, so a job is enqueued in the transaction that makes it necessary.
//
//	sweep      leases that are over       → unknown, with the jobs that look them up   every few seconds
//	claim      unknown keys that are due  → the jobs that look them up                 every second or so
//	resolve    one key                    → asks the PSP, and writes what that proves
//	webhook    one stored event           → judges its record
//	scan       one account's ledger       → what webhooks and lookups have missed      every minute or so
//	evidence   one record                 → judged again, if an operator decides so
//	answered   dead letters that their keys answer → closed                            every few seconds
//	statement  one account's day          → a report of breaks                         every hour, for missing days
//	prune      what is past its time      → expired, then deleted                      every ten seconds or so
//
// A job decides nothing about an outcome. Package judge does, and the guards of a step make a repeated run harmless.
// Only what cannot be read at all opens a dead letter here (webhook.go, failwalk.go). If a lookup's job is lost,
// another one is made, because its key is still unknown. A webhook has only its one job: both are stored in one
// transaction. If a job that is not of the schedule fails for the last time, it becomes a dead letter. A trigger on
// River's own table (discarded_jobs_become_dead_letters) opens the dead letter in the statement that discards the job.
//
// Only this package, and the wiring in package app, know River.
package reconcile
