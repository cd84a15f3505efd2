// Package controls is the demo's page with buttons. A person who presses them sends payments as a client would, sets
// the faults of the mock PSP, and kills the processes of the demo. The page shows what the client was told.
//
// It refuses to know how a process is killed or started, and how a row is read: it is a client of the public API
// and of the mock PSP, as everybody may be, and is given the row of its newest payment.
//
//	controls.go    the routes, and who may use them
//	compare.go     one payment at two servers; contestant.go: one of the two; comparedraw.go: what is shown of them
//	send.go        what each button sends
//	told.go        what the client was told: the log that the page shows
//	guide.go       what is known of the newest payment, what to do next, and what has been seen
//	stop.go        stops a payment at a crash window
//	psp.go         the faults and webhooks of the mock PSP
//	others.go      what others do to a payment: refunds in the dashboard, disputes, payouts
//	start.go       the link that signs in, good once
//	page.go        what the page shows: page.html, and demo.js; and the stream that keeps it up to date
//
// # What always holds
//
//   - It is for a listener on loopback only: everybody who reaches it may press the buttons. A request must name
//     loopback as its host, since a page from elsewhere can make its own name lead here. A POST must come from this
//     page.
//   - The page works without a script. The scripts keep it up to date, and send its forms without leaving it.
//   - What a button has done is in the log, also if it was refused.
//   - The log, the requests under way, and bodies are bounded.
package controls
