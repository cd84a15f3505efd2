// Package psp holds what every dialect of a payment service provider must keep. It runs the clients of
// internal/gateway against the mock PSP, over HTTP, and through the port only. After each row it asks the PSP's own
// ledger what has really happened, and compares that with what the dialect has said.
//
// A row is one object (a charge or a refund), one fault, and the step at which the fault strikes. The rows are data:
//
//	dialect_test.go   what a dialect tells the suite
//	native_test.go    the mock's own dialect; stripe_test.go: that of Stripe
//	world_test.go     a mock PSP with its ledger, clock and webhooks; wire_test.go: faults between the two
//	story_test.go     sends, looks up, waits, tries again, and sends once more
//	claims_test.go    what must be true of each story, by the ledger
//	grid_test.go      all rows, compared with testdata/grid.golden
//	recording_test.go what a provider's sandbox has answered, in place of the mock; recorded_test.go: its rows
//	becomes_test.go   what each event and each line of a statement comes to, in docs/providers.md
//
// The suite knows no table, no HTTP API and no job of Payonce. It refuses to know how a dialect is made: a claim that
// holds for one dialect only is a test of that dialect's own package.
package psp
