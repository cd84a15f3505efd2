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
//	inferred  nowhere: it follows from the others
//
// For example: the API has reserved a key, and nothing else is known. Then the request to the PSP is dashed. The
// process may have died before it sent anything.
package sequence
