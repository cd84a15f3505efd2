// Package history records what clients asked and heard, and decides whether one server that keeps its promises could
// have said it.
//
// It owns the recording (Recorder), the contract of a key as a model, and the search for an order that explains a
// key's history (Check, with porcupine: Wing and Gong's algorithm after Lowe,
// https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/paper.pdf). It looks at nothing but the history: no
// database, no PSP, no log. What those say is package invariants'.
//
// # The model
//
// Each life of a key is a register of its own (tenant, route, key, life), so each is checked alone. It is always in one
// of four phases:
//
//	unused    nobody has reserved it
//	running   somebody executes it now
//	idle      bound, and nobody executes it: unknown, or released
//	final     answered for good: status, type, location, bytes and expiry
//
// From its first use on it is bound to an intent and to one payment or refund. A request does two things, each at one
// instant. It arrives, when it is called, and may from then on take the key: an unused one, or an idle one with its own
// intent, which runs then. And it is answered, at some instant between call and return, with something that must be
// true at that very instant:
//
//	201, 402 succeeded, declined   the key becomes final, or is final with the same bytes, headers and payment
//	  Idempotent-Replayed: false   the request has taken the key itself, and no other was told the same
//	  Idempotent-Replayed: true    another request has taken the key that may have reached the PSP
//	202 processing                 bound to this intent, not final
//	409 in progress                running, for another request with this intent
//	422 mismatch                   bound to another intent, final or not
//	503 psp_unavailable            bound to this intent and idle from here on, not final; without a payment: unused
//	410 too old                    bound to this intent and idle from here on, not final
//	409 refund refused             not final; if it is bound, then to this intent and idle from here on
//	400 401 403 404 413 415 429, 503 shutting_down    nothing: such a request never takes the key
//	503 store unavailable          nothing is known: it may take the key, also later, but never reaches the PSP
//	500, no answer at all          nothing is known: it may take the key, also later, and reach the PSP
//
// Whatever carries a payment's id carries that of the key's. What runs may become idle, and what is bound may become
// final, at any instant and without any request: owners give up, the sweeper, webhooks, lookups and the scan do that.
// But only if a request that may have reached the PSP has taken the key before. These moves are what makes the model
// nondeterministic.
//
// # What the model does not see
//
// The model does not say when a key expires: the recorder of a history knows which life of the key a request was sent
// in. Unknown and released are one phase, since no answer tells them apart for sure. A request that was answered
// 202 may have left the key running (the database was away when it wanted to write), so a 409 after it is right until
// the lease is over, which the model does not count. That an answer was never given is no violation here: what is
// accepted must end, and that is I2.
package history
