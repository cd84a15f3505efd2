// Package httpproxy stands between a program and an HTTP service, and holds the world at a named moment: before a call
// has reached the service, or after the service has done what it was asked and before the program hears of it. It is to
// HTTP what test/pgproxy is to PostgreSQL's protocol.
//
//	program ──── call ────► service     CutBefore, FailBefore, HoldBefore: nothing has happened
//	                        at work     CutDuring: nobody knows what comes of it
//	                        done
//	program ◄─── answer ─── service     CutAfter, HalfAfter, FailAfter, RefuseAfter, HoldAfter: only the service knows
//
// Calls have names. Options.Name gives them. A call that meets nothing passes as it is, and ends at
// the service when the program gives it up. One that is held does not: it is like a packet that was long under way, and
// lands when it is released, whatever has become of its sender by then.
//
// It never makes up an answer but for the kinds of failure that a gateway between the two would cause: 500 instead of
// passing the call on, and 500 or 400 instead of the answer. It refuses to know what a call means.
package httpproxy
