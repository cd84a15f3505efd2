package windows

import (
	"bytes"
	"regexp"
	"strings"
	"sync/atomic"

	"payonce/test/pgproxy"
)

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
