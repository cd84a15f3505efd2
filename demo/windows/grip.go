package windows

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// charge is the name of the only call to the PSP that can be held.
const charge = "charge"

func nameOfCall(r *http.Request) string {
	if r.Method == http.MethodPost && r.URL.Path == "/v1/charges" {
		return charge
	}
	return ""
}

// grip is the message of one key that is held, or will be. One of row and call is nil.
type grip struct {
	at   place
	rows *pgproxy.Proxy
	row  *pgproxy.Event
	net  *httpproxy.Proxy
	call *httpproxy.Event
}

// seize has the next message of the key at the place held there.
func seize(at place, key string, rows *pgproxy.Proxy, net *httpproxy.Proxy) *grip {
	g := &grip{at: at, rows: rows, net: net}
	if at.query == "" {
		do := httpproxy.HoldAfter
		if at.before {
			do = httpproxy.HoldBefore
		}
		g.call = net.OnWhere(charge, func(c httpproxy.Call) bool {
			return strings.Contains(c.Header.Get("Idempotency-Key"), key)
		}, do)
		return g
	}
	do := pgproxy.HoldAfter
	if at.before {
		do = pgproxy.HoldBefore
	}
	ours := func(round []byte) bool { return bytes.Contains(round, []byte(key)) }
	g.row = rows.OnWhere(at.query, ours, do)
	return g
}

// reached waits until the message is held.
func (g *grip) reached(ctx context.Context) error {
	if g.call != nil {
		return g.call.Reached(ctx)
	}
	if err := g.row.Reached(ctx); err != nil || !g.at.commit {
		return err
	}
	// The statement is held. The commit of its transaction is the next one of the same session.
	statement := g.row
	g.row = g.rows.OnSame(statement, "commit", pgproxy.HoldAfter)
	g.rows.Forget(statement)
	return g.row.Reached(ctx)
}

// dropped receives when the session of a held round has ended by itself. It never does for a call.
func (g *grip) dropped() <-chan struct{} {
	if g.call != nil {
		return nil
	}
	return g.row.Dropped()
}

// goOn lets the message go on.
func (g *grip) goOn() {
	if g.call != nil {
		g.call.Release()
		return
	}
	g.row.Release()
}

// cut ends the connection on both sides. A request that is held never arrives, and an answer is lost.
func (g *grip) cut() {
	switch {
	case g.call == nil:
		g.row.Cut()
	case g.at.before:
		g.call.ReleaseAs(httpproxy.CutBefore)
	default:
		g.call.ReleaseAs(httpproxy.CutAfter)
	}
}

// fail answers 500 in place of the PSP.
func (g *grip) fail() {
	if g.at.before {
		g.call.ReleaseAs(httpproxy.FailBefore)
		return
	}
	g.call.ReleaseAs(httpproxy.FailAfter)
}

// forget takes the event away, so that no other message meets it.
func (g *grip) forget() {
	if g.call != nil {
		g.net.Forget(g.call)
		return
	}
	g.rows.Forget(g.row)
}
