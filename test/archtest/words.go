package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// A word that the glossary does not have makes a reader ask whether it is a new idea. These are words of our own that
// were given up, each with the one that took its place. Only whole identifiers are compared: a dashboard and a third
// party are ordinary words.
var givenUpIdentifiers = map[string]string{
	"testimony": "evidence", "caseFile": "State or Seen",
	"weigh": "judge", "ruling": "result or decision", "Ruling": "Result",
	"standing": "verdict or status",
	"giveback": "refundMovement", "flight": "waitedKey", "flights": "waits",
	"lane": "slot", "lanes": "slots", "Lanes": "CommitSlots", "DBLanes": "DBCommitSlots",
	"party": "member", "company": "group", "board": "group",
	"letter": "deadLetter", "letters": "deadLetters", "Letter": "DeadLetter", "Letters": "DeadLetters",
	"desk": "the operator's service", "Desk": "Service", "office": "fixture",
	"settle": "complete, resolve or apply", "Settle": "Resolve", "settled": "completed or resolved",
	"Settled":      "Completed",
	"SettleWindow": "GracePeriod", "settleWindow": "gracePeriod",
	"Claim": "Reservation", "NewClaim": "NewReservation",
	"Sight": "KeyView", "sight": "view", "Passage": "GuardResult", "passage": "result",
	"ruled": "decided",
}

// givenUpPhrases are the same in prose, SQL, settings and metrics. Each means nothing else in this tree. The last group
// is archaic English, also inside of names: a reader whose first language is another one has to look it up.
var givenUpPhrases = []struct {
	word    string // in lower case; each match has it, and to look for it first is fast
	phrase  *regexp.Regexp
	instead string
}{
	{"settle", regexp.MustCompile(`(?i)settle[ _-]window`), "grace period"},
	{"db_lanes", regexp.MustCompile(`DB_LANES|payonce_db_lanes`), "DB_COMMIT_SLOTS, payonce_db_commit_slots"},
	{"letter_", regexp.MustCompile(`(?:^|[^_])letter_(?:id|version|conflict|needs_decision)\b`), "dead_letter_…"},
	{"letter", regexp.MustCompile(`(?i)(?:an|the|of an|of one|the other|open) letter (?:about|is|was|of|that)`), "dead letter"},
	{"letter", regexp.MustCompile(`(?:^|[^d])Letter(?:Id|Kind|Action|Resolution)\b`), "DeadLetter…"},
	{"desk", regexp.MustCompile(`(?i)\bdesks?\b`), "an operator has the case"},
	{"ruling", regexp.MustCompile(`(?i)\brulings?\b`), "decision"},
	{"tell", regexp.MustCompile(`(?i)\btells? of (?:itself|themselves)\b`), "what it reports"},
	{"in company", regexp.MustCompile(`(?i)in company (?:of|with|where)`), "in a group commit"},
	{"else", regexp.MustCompile(`\*\*Else\.?\*\*|(?:^|[.;] )Else: `), "a sentence with a subject"},

	{"anew", regexp.MustCompile(`(?i:\banew\b)|[a-z]Anew`), "again; a key is renewed"},
	{"whoever", regexp.MustCompile(`(?i:\bwhoever\b)|[a-z]Whoever`), "the client, the operator, the owner, …"},
	{"spelt", regexp.MustCompile(`(?i:\bspelt\b)|[a-z]Spelt`), "written"},
	{"mend", regexp.MustCompile(`(?i:\bmend(?:s|ed|ing)?\b)|[a-z]Mended`), "repair, fix or resolve"},
}

// wordBreaches looks for given-up identifiers in Go.
func wordBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		if file.generated {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if instead, given := givenUpIdentifiers[id.Name]; given {
				breaches = append(breaches, breach{file.at(id),
					fmt.Sprintf("%s was given up: %s; see docs/glossary.md", id.Name, instead)})
			}
			return true
		})
	}
	return breaches
}

// spokenHere tells files that people read. This package names what it looks for.
func spokenHere(name string) bool {
	switch path.Ext(name) {
	case ".go", ".sql", ".md", ".yaml", ".yml", ".json", ".sh", ".patch", ".pml", "":
		return path.Dir(name) != "test/archtest" && !strings.Contains(name, "/testdata/")
	}
	return false
}

// phraseBreaches looks for given-up phrases in the named files.
func phraseBreaches(root fs.FS, names []string) ([]breach, error) {
	var breaches []breach
	for _, name := range names {
		if !spokenHere(name) {
			continue
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("look for words: %w", err)
		}
		if bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
			continue
		}
		lower := bytes.ToLower(content)
		for _, g := range givenUpPhrases {
			if !bytes.Contains(lower, []byte(g.word)) {
				continue
			}
			number := 0
			for line := range bytes.Lines(content) {
				number++
				if !bytes.Contains(bytes.ToLower(line), []byte(g.word)) {
					continue
				}
				if found := g.phrase.Find(line); found != nil {
					breaches = append(breaches, breach{fmt.Sprintf("%s:%d", name, number),
						fmt.Sprintf("%q was given up: %s", found, g.instead)})
				}
			}
		}
	}
	return breaches, nil
}
