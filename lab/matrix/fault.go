package main

import "fmt"

// fault is a column.
type fault string

// The faults. The word is what a selection (ONLY) calls them.
const (
	kill    fault = "kill"     // kill -9; what was on its way is lost with the process
	late    fault = "late"     // kill -9; what was on its way lands when everybody else has long acted
	pause   fault = "pause"    // SIGSTOP until everybody else has acted, then SIGCONT; what was on its way lands then
	nap     fault = "nap"      // SIGSTOP for half the lease, then SIGCONT: nobody else has acted
	dbEnds  fault = "db-ends"  // PostgreSQL ends the session (pg_terminate_backend) before it gets the statement
	dbCut   fault = "db-cut"   // the connection breaks before the statement is through
	ackLost fault = "ack-lost" // committed, and the connection breaks before the program hears of it
	pspFail fault = "psp-500"  // the PSP answers 500
	pspCut  fault = "psp-cut"  // the connection to the PSP breaks
	pspHalf fault = "psp-half" // it breaks in the middle of the answer
	hangUp  fault = "hang-up"  // the client goes, and does not wait for its answer
	alone   fault = "scene"    // what goes wrong is in the scene
)

// faults lists the columns.
func faults() []fault {
	return []fault{kill, late, pause, nap, dbEnds, dbCut, ackLost, pspFail, pspCut, pspHalf, hangUp, alone}
}

// title is the head of a column.
func (f fault) title() string {
	switch f {
	case kill:
		return "kill -9"
	case late:
		return "kill -9, late packet"
	case pause:
		return "pause"
	case nap:
		return "nap"
	case hangUp:
		return "hang-up"
	case alone:
		return "scene"
	case dbEnds:
		return "session ended"
	case dbCut:
		return "connection cut"
	case ackLost:
		return "ack lost"
	case pspFail:
		return "PSP 500"
	case pspCut:
		return "PSP cut"
	case pspHalf:
		return "PSP half answer"
	}
	return string(f)
}

// wire is where a boundary can be seen.
type wire string

const (
	database wire = "database"
	psp      wire = "psp"
	inside   wire = "inside" // on no wire: the program is built with a stop of its own
)

type side string

const (
	before side = "before" // what is named has not arrived
	after  side = "after"  // it has been done, and the answer is on its way
)

// boundary is a place on a wire where the world can be held.
type boundary struct {
	at   wire
	name string // of the query, of the call, or of the stop
	side side
	// commit: not the statement itself, but the commit of the transaction that it is in.
	commit bool
	// open: behind the statement, its transaction is still open.
	open bool
	// unsent: the key is reserved, and nothing has gone to the PSP.
	unsent bool
	// times is how many at once have to be held; 0 means 1.
	times int
}

func (b boundary) count() int { return max(b.times, 1) }

// senseless says why a fault makes no sense in the row, or nothing if it does.
func (r row) senseless(f fault) string {
	switch {
	case r.script != nil && f != alone:
		return "a scene has a course of its own"
	case r.script == nil && f == alone:
		return "no scene"
	case f == alone || f == hangUp && r.client:
		return ""
	case f == hangUp:
		return "nobody waits for an answer here who could hang up"
	}
	return r.at.senseless(f)
}

// senseless says why a fault makes no sense at the boundary, or nothing if it does.
func (b boundary) senseless(f fault) string {
	onPSP := f == pspFail || f == pspCut || f == pspHalf
	onDatabase := f == dbEnds || f == dbCut || f == ackLost
	switch {
	case f == kill || f == pause:
		return ""
	case f == nap && b.unsent:
		return ""
	case f == nap:
		return "within its lease, only an owner that has not sent yet asks whether it was paused"
	case b.at == inside:
		return "nothing is on a wire here"
	case b.at == database && onPSP:
		return "nothing is on its way to the PSP"
	case b.at == psp && onDatabase:
		return "nothing is on its way to the database"
	case f == late && b.side == after:
		return "what was sent has arrived; only its answer is on its way"
	case f == ackLost && (b.side == before || b.open):
		return "nothing is committed yet"
	case onDatabase && f != ackLost && b.side == after && !b.open:
		return "it is committed: whatever ends the connection now is the lost acknowledgement"
	case f == pspHalf && b.side == before:
		return "there is no answer yet"
	}
	return ""
}

func (b boundary) String() string {
	what := b.name
	if b.commit {
		what = "the commit of " + b.name
	}
	return fmt.Sprintf("%s %s (%s)", b.side, what, b.at)
}
