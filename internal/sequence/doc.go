// Package sequence draws the life of a key as a sequence diagram: client, API, database, PSP, reconciler and operator
// over time. The same diagram is text for a terminal and SVG for a page.
//
// It is pure: it has no clock, no database and no network. It draws what the caller has read, and nothing else. What
// follows from a record, but was recorded by nobody, is drawn dashed. The steps come from:
//
//	row       the key's row                       stays after kill -9 of every process
//	timeline  the key's timeline                  stays after kill -9 of every process
//	ledger    the PSP's own ledger, when asked    is the PSP's, not ours
//	memory    the latest requests of one process  is lost with the process
//	          and when the process was started
//	events    what a demo has done to processes   is the demo's
//	inferred  nowhere: it follows from the others
//
// For example: the API has reserved a key, and nothing else is known. Then the request to the PSP is dashed. The
// process may have died before it sent anything.
//
// Each step stands where it happened, and not where it was noticed. An answer of the PSP that was lost begins when the
// PSP had executed, which its ledger tells, and ends nowhere. That the API had no answer is a note, later. If a PSP
// executes in two steps, its ledger tells only when it made the object. Then no lost answer is drawn.
package sequence
