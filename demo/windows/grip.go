package windows

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// grip is the message of one key that is held, or will be. One of row and call is nil.
type grip struct {
	at   place
	of   proxies // of the process whose message it is
	row  *pgproxy.Event
	call *httpproxy.Event
	end  []func() // what else is forgotten at the end
	dead bool     // the process has ended
	// landed says that awaitAnswer has waited.
	landed bool
	// letOthers ends what keepOthersAway has begun.
	letOthers func()
	// restore lets the API read the PSP's object again. It is nil if the API could read it all the time.
	restore func()
}

// seize has the next message of the key at the place held there.
func (s *Stage) seize(at place, key string) *grip {
	g := &grip{at: at, of: s.proxies[at.who]}
	object := s.learnObject(g, key)
	if at.rival != "" {
		// The round of a lookup names the key twice: it reads the key, and the movement by the key. A webhook's has the
		// movement's id.
		rival := g.of.rows.OnWhere(at.rival, func(round []byte) bool {
			return bytes.Count(round, []byte(key)) > 1
		}, pgproxy.HoldBefore)
		g.end = append(g.end, func() {
			g.awaitAnswer()
			g.of.rows.Forget(rival)
		})
	}
	if at.call != "" {
		do := httpproxy.HoldAfter
		if at.before {
			do = httpproxy.HoldBefore
		}
		g.call = g.of.calls.OnWhere(at.call, func(c httpproxy.Call) bool {
			return object.in(c.Path) ||
				strings.Contains(c.Header.Get("Idempotency-Key")+c.Query.Get("idempotencyKey"), key)
		}, do)
		return g
	}
	words := []string{key, at.source}
	if at.news {
		words = append(words, s.config.Dialect.news)
	}
	ours := naming(words...)
	if at.event {
		var event name
		g.end = append(g.end, event.learn(s.proxies[API].rows, "StoreEvents", eventID, key, s.config.Dialect.news))
		ours = func(round []byte) bool { return event.in(string(round)) }
	}
	do := g.action()
	if at.commit {
		do = pgproxy.HoldAfter // see reached
	}
	g.row = g.of.rows.OnWhere(at.query, ours, do)
	return g
}

// learnObject learns the id of the PSP's object when the API stores it. If the place needs that, the API cannot read
// the object until the place is reached. Its request would otherwise find out at once what has happened to the object.
func (s *Stage) learnObject(g *grip, key string) *name {
	object, api := &name{}, s.proxies[API]
	if s.config.Dialect.object == nil {
		return object
	}
	g.end = append(g.end, object.learn(api.rows, "RememberObject", s.config.Dialect.object, key))
	if g.at.lost {
		api.calls.Choose(func(c httpproxy.Call) httpproxy.Action {
			if c.Name == lookup && object.in(c.Path) {
				return httpproxy.FailBefore
			}
			return httpproxy.Pass
		})
		g.restore = sync.OnceFunc(func() { api.calls.Choose(nil) })
		g.end = append(g.end, g.restore)
	}
	return object
}

func (g *grip) action() pgproxy.Action {
	if g.at.before {
		return pgproxy.HoldBefore
	}
	return pgproxy.HoldAfter
}

// lands is what the database may need for a statement that has just been let go.
const lands = time.Second

// awaitAnswer waits for the end of the round that was held: a rival must not be faster.
func (g *grip) awaitAnswer() {
	if g.landed {
		return
	}
	g.landed = true
	ctx, cancel := context.WithTimeout(context.Background(), lands)
	defer cancel()
	_, _ = g.row.Landed(ctx) // without an answer, the rival goes on all the same
}

// reached waits until the message is held.
func (g *grip) reached(ctx context.Context) error {
	if g.restore != nil {
		defer g.restore()
	}
	if g.call != nil {
		return g.call.Reached(ctx)
	}
	if err := g.row.Reached(ctx); err != nil || !g.at.commit {
		return err
	}
	// The statement is held. The commit of its transaction is the next one of the same session.
	statement := g.row
	g.row = g.of.rows.OnSame(statement, "commit", g.action())
	g.of.rows.Forget(statement)
	return g.row.Reached(ctx)
}

// keepOthersAway holds whatever the reconciler does about the key. A webhook, a lookup or the scan would end the
// payment while a person still looks at it.
func (g *grip) keepOthersAway(reconciler *pgproxy.Proxy, key string) {
	others := reconciler.HoldWhere(naming(key))
	g.letOthers = func() { reconciler.Forget(others) }
	g.end = append(g.end, func() {
		if g.dead && g.at.who == Reconciler {
			others.Cut() // They are lost with the same process.
		} else if g.row != nil && g.at.before {
			g.awaitAnswer()
		}
		g.letOthers()
	})
}

// die loses what is held with its process.
func (g *grip) die() {
	g.dead = true
	g.cut()
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

// forget takes the events away, so that no other message meets them.
func (g *grip) forget() {
	if g.call != nil {
		g.of.calls.Forget(g.call)
	} else {
		g.of.rows.Forget(g.row)
	}
	for _, end := range g.end {
		end()
	}
}

// naming tells whether a round has all the words. A text stands in a round as it is.
func naming(words ...string) func(round []byte) bool {
	return func(round []byte) bool {
		for _, word := range words {
			if !bytes.Contains(round, []byte(word)) {
				return false
			}
		}
		return true
	}
}

// name is an id that is learned from a round that has both the id and the key.
type name struct{ learned atomic.Pointer[string] }

// learn learns an id from the rounds with a query that have all the words. Nothing is held for it, and forget ends it.
func (n *name) learn(from *pgproxy.Proxy, query string, id *regexp.Regexp, words ...string) (forget func()) {
	fits := naming(words...)
	event := from.OnWhere(query, func(round []byte) bool {
		if found := string(id.Find(round)); found != "" && fits(round) {
			n.learned.Store(&found)
		}
		return false
	}, pgproxy.HoldBefore)
	return func() { from.Forget(event) }
}

// in reports whether a text has the id.
func (n *name) in(text string) bool {
	id := n.learned.Load()
	return id != nil && strings.Contains(text, *id)
}

// eventID is the form of the ids of webhooks, in each dialect.
var eventID = regexp.MustCompile(`evt_[0-9A-Za-z]+`)
