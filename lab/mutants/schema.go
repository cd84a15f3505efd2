package main

import (
	"regexp"
	"slices"
	"strings"
)

// parts of a migration that are left out as a whole, and what stands in their place.
type leftOut struct {
	pattern *regexp.Regexp
	instead string
}

// guardsOfTables are triggers, unique indexes and references. Primary keys are none: statements name them (ON
// CONFLICT), and would not run without them.
func guardsOfTables() []leftOut {
	return []leftOut{
		{regexp.MustCompile(`(?s)CREATE TRIGGER [^;]*;`), ""},
		{regexp.MustCompile(`UNIQUE INDEX`), "INDEX"},
		{regexp.MustCompile(`(CONSTRAINT \w+ )?FOREIGN KEY \([^)]*\) REFERENCES \w+ \([^)]*\)`), "CHECK (true)"},
		{regexp.MustCompile(`(CONSTRAINT \w+ )?UNIQUE \([^)]*\)`), "CHECK (true)"},
		{regexp.MustCompile(`(CONSTRAINT \w+\s+)?UNIQUE\s*\n`), "\n"},
		{regexp.MustCompile(`REFERENCES \w+ \(id\)`), ""},
	}
}

// owner of what a migration makes: the line that begins it.
var owner = regexp.MustCompile(`(?m)^(?:CREATE (?:OR REPLACE )?(?:UNIQUE )?(?:TABLE|FUNCTION|TRIGGER|INDEX|VIEW)|` +
	`ALTER TABLE) (\w+)`)

// mutantsOfMigration registers the mutants of one file. What a file after it drops is no guard any more.
func mutantsOfMigration(c *catalogue, path, text string, later []string, changes map[int]change) {
	up := upOf(text)
	var found []condition
	found = append(found, conditionsAfter(up, " CHECK ")...)
	found = append(found, conditionsOfFunctions(up)...)
	found = append(found, conditionsOfDeclarations(up)...)
	for _, g := range guardsOfTables() {
		for _, at := range g.pattern.FindAllStringIndex(up, -1) {
			if !inComment(up, at[0]) {
				found = append(found, condition{at[0], at[1], schema, g.instead})
			}
		}
	}
	slices.SortFunc(found, func(a, b condition) int { return a.start - b.start })
	for _, f := range found {
		in, whole := ownerOf(up, f.start)
		if dropped(later, in, up[:f.start]) {
			continue
		}
		number := c.add(mutant{where: path, in: in, kind: f.kind, text: up[f.start:f.end],
			line: path}, whole)
		file := path[strings.LastIndex(path, "/")+1:]
		changes[number] = change{start: f.start, end: f.end, text: f.instead, file: file}
	}
}

func upOf(text string) string {
	up, _, _ := strings.Cut(text, "-- +goose Down")
	return up
}

var constraint = regexp.MustCompile(`CONSTRAINT (\w+)\s+CHECK\s*\($`)

// dropped tells whether a later file drops what begins at the end of before: a trigger or a constraint.
func dropped(later []string, in, before string) bool {
	names := []string{"DROP TRIGGER " + in + " "}
	if m := constraint.FindStringSubmatch(before); m != nil {
		names = append(names, "DROP CONSTRAINT "+m[1]+";")
	}
	for _, text := range later {
		for _, name := range names {
			if strings.Contains(upOf(text), name) {
				return true
			}
		}
	}
	return false
}

var (
	triggerWhen   = regexp.MustCompile(`(?s)CREATE TRIGGER [^;]*?\bWHEN (\([^;]*\))\s+EXECUTE`)
	uniqueWhere   = regexp.MustCompile(`(?s)UNIQUE INDEX [^;]*?\bWHERE ([^;]*);`)
	generatedCase = regexp.MustCompile(`(?s)GENERATED ALWAYS AS \(CASE(.*?)\bELSE\b`)
	caseArm       = regexp.MustCompile(`(?s)WHEN (.*?)\s+THEN\b`)
)

// conditionsOfDeclarations finds the operands of a trigger's WHEN, the condition of a unique index, and the arms of a
// generated column.
func conditionsOfDeclarations(text string) []condition {
	var found []condition
	add := func(start, end int, as kind) {
		if inComment(text, start) {
			return
		}
		part := text[start:end]
		for _, c := range operandsOf(part, tokenize(part), as) {
			c.start, c.end = c.start+start, c.end+start
			found = append(found, c)
		}
	}
	for _, m := range triggerWhen.FindAllStringSubmatchIndex(text, -1) {
		add(m[2], m[3], "") // that nothing fires is the mutant without the trigger
	}
	for _, m := range uniqueWhere.FindAllStringSubmatchIndex(text, -1) {
		add(m[2], m[3], conjunct)
	}
	for _, m := range generatedCase.FindAllStringSubmatchIndex(text, -1) {
		for _, arm := range caseArm.FindAllStringSubmatchIndex(text[m[2]:m[3]], -1) {
			add(m[2]+arm[2], m[2]+arm[3], disjunct)
		}
	}
	return found
}

func inComment(text string, at int) bool {
	return strings.Contains(text[strings.LastIndex(text[:at], "\n")+1:at], "--")
}

// conditionsOfFunctions finds those in the bodies of functions: of IF and WHERE, and what is assigned to ok.
func conditionsOfFunctions(text string) []condition {
	var found []condition
	for at := 0; ; {
		open := strings.Index(text[at:], "$$")
		if open < 0 {
			return found
		}
		open += at + 2
		body, _, _ := strings.Cut(text[open:], "$$")
		for _, c := range append(conditionsOfIfs(body), conditionsAfter(body, " WHERE ON ")...) {
			c.start, c.end = c.start+open, c.end+open
			found = append(found, c)
		}
		at = open + len(body) + 2
	}
}

// conditionsOfIfs takes away each IF, which then raises nothing, and each operand; of what is assigned to ok, each
// operand.
func conditionsOfIfs(body string) []condition {
	tokens := tokenize(body)
	var found []condition
	for i, t := range tokens {
		as, until := kind(""), ""
		switch {
		case t.text == "IF" && (i == 0 || tokens[i-1].text != "END"), t.text == "ELSIF":
			as, until = disjunct, "THEN"
		case t.text == ":=" && tokens[i-1].text == "OK":
			as, until = conjunct, ";"
		default:
			continue
		}
		end := i + 1
		for end < len(tokens) && tokens[end].text != until {
			end++
		}
		found = append(found, operandsOf(body, tokens[i+1:end], as)...)
	}
	return found
}

// ownerOf is the name and the text of what a place of a migration belongs to.
func ownerOf(text string, at int) (name, whole string) {
	begin := 0
	for _, m := range owner.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			return name, text[begin:m[0]]
		}
		begin, name = m[0], text[m[2]:m[3]]
	}
	return name, text[begin:]
}
