package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// kind is what is taken away.
type kind string

// Kinds.
const (
	earlyReturn kind = "early return" // an if that leaves: its body is never run
	never       kind = "condition never"
	always      kind = "condition always"
	errorCheck  kind = "error check" // `if err != nil`: the error is ignored
	conjunct    kind = "conjunct"    // an operand of && or AND is true
	disjunct    kind = "disjunct"    // an operand of || or OR is false
	caseGone    kind = "case"
	comparison  kind = "comparison" // a value is negated
	boundary    kind = "boundary"   // < becomes <=
	schema      kind = "schema"     // a trigger, a unique index or a reference is left out
)

// mutant is one change of the product.
type mutant struct {
	number int    // in this build, from 1
	where  string // the package's directory, or the file with the statement
	in     string // the function, statement, table or database function
	kind   kind
	text   string // what is taken away, on one line
	nth    int    // among those of one place that look the same, from 1
	key    string // a short name: the hash of the id
	hash   string // of the id, and of the whole function or statement
	line   string // file and line, for people
}

// id names a mutant for people, and in survivors.txt. It survives changes of other places.
func (m mutant) id() string {
	id := fmt.Sprintf("%s %s: %s: %s", m.where, m.in, m.kind, m.text)
	if m.nth > 1 {
		id += fmt.Sprintf(" (%d)", m.nth)
	}
	return id
}

func ofSchema(m mutant) bool { return strings.HasPrefix(m.where, "db/migrations/") }

// catalogue collects the mutants of a build.
type catalogue struct {
	all  []mutant
	seen map[string]int
}

// add registers a mutant and returns its number. whole is the source of the function or statement.
func (c *catalogue) add(m mutant, whole string) int {
	m.text = oneLine(m.text)
	m.number = len(c.all) + 1
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	m.nth = 1
	c.seen[m.id()]++
	m.nth = c.seen[m.id()]
	m.key, m.hash = shortHash(m.id()), shortHash(m.id()+"\x00"+oneLine(whole))
	c.all = append(c.all, m)
	return m.number
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// oneLine is a text without its line breaks and indentation.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// edit replaces a part of a text. What is put around nodes are insertions: start and end are equal.
type edit struct {
	start, end int
	text       string
	closing    bool // it ends a node
}
