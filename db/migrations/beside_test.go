package migrations_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Old processes run over a newer schema: during an update, and when one of them is started again meanwhile. So a
// migration adds, and takes nothing away that they use. What a form does to a table in use counts, too: payments wait
// for as long as it holds a lock.

// A form of a statement, without literals and function bodies, in one line. The first group names a table or an index.
var (
	createsTable = regexp.MustCompile(`(?i)^CREATE TABLE (?:IF NOT EXISTS )?(\w+)`)
	onTable      = regexp.MustCompile(
		`(?i)^(?:ALTER TABLE (?:ONLY )?|INSERT INTO |CREATE (?:UNIQUE )?INDEX \w+ ON |CREATE TRIGGER .* ON )(\w+)`)
	altersTable    = regexp.MustCompile(`(?i)^ALTER TABLE (?:ONLY )?\w+ (.*)$`)
	createsIndex   = regexp.MustCompile(`(?i)^CREATE INDEX CONCURRENTLY (\w+) ON \w+`)
	dropsIndex     = regexp.MustCompile(`(?i)^DROP INDEX CONCURRENTLY IF EXISTS (\w+)$`)
	alwaysHarmless = regexp.MustCompile(`(?i)^(?:CREATE OR REPLACE (?:FUNCTION|VIEW)|CREATE (?:FUNCTION|VIEW|TYPE|SEQUENCE)|COMMENT ON|SET) `)

	addsColumn    = regexp.MustCompile(`(?i)^ADD COLUMN `)
	unusualColumn = regexp.MustCompile(`(?i)\b(?:UNIQUE|PRIMARY KEY|REFERENCES|CHECK|GENERATED)\b`)
	notNull       = regexp.MustCompile(`(?i)\bNOT NULL\b`)
	fallback      = regexp.MustCompile(`(?i)\bDEFAULT\b`)
	// Two of our defaults are STABLE, so they are computed once. Another function would rewrite the whole table.
	computed = regexp.MustCompile(`(?i)\bDEFAULT (?:\w+)\(`)
	stable   = regexp.MustCompile(`(?i)\bDEFAULT (?:now|payonce_now)\(`)
	harmless = regexp.MustCompile(`(?i)^(?:VALIDATE CONSTRAINT |SET \((?:fillfactor|autovacuum_))`)

	// What an old process may mind, unless the file says which version minds no more.
	onceSafe = regexp.MustCompile(`(?i)^(?:DROP (?:TABLE|FUNCTION|VIEW|TYPE|TRIGGER|INDEX CONCURRENTLY) |CREATE TRIGGER |` +
		`CREATE UNIQUE INDEX CONCURRENTLY |ALTER TYPE \w+ ADD VALUE |(?:INSERT INTO|UPDATE|DELETE FROM) )`)
	onceSafeAction = regexp.MustCompile(`(?i)^(?:DROP (?:COLUMN|CONSTRAINT) |ALTER COLUMN \w+ (?:SET NOT NULL|` +
		`DROP NOT NULL|SET DEFAULT .*|DROP DEFAULT)$|ADD CONSTRAINT .* (?:NOT VALID|USING INDEX \w+)$)`)
	safeSince = regexp.MustCompile(`(?m)^-- Safe since (\d+\.\d+\.\d+): \S`)

	bodies    = regexp.MustCompile(`(?s)\$(\w*)\$.*?\$\w*\$`)
	literals  = regexp.MustCompile(`'(?:[^']|'')*'`)
	comments  = regexp.MustCompile(`--[^\n]*`)
	riverFile = regexp.MustCompile(`_river_v\d+\.sql$`)
)

// migration is a file, as it is read by the rules.
type migration struct {
	statements []string
	fresh      map[string]bool // tables that it makes
	rebuilt    map[string]bool // indexes that it makes
	alone      bool            // outside of a transaction
	safe       bool            // it names a released version whose processes mind nothing of it
}

func readMigration(text string, released func(version string) bool) migration {
	m := migration{fresh: map[string]bool{}, rebuilt: map[string]bool{},
		alone: strings.Contains(text, "-- +goose NO TRANSACTION")}
	if match := safeSince.FindStringSubmatch(text); match != nil {
		m.safe = released(match[1])
	}
	up, _, _ := strings.Cut(text, "-- +goose Down")
	up = literals.ReplaceAllString(comments.ReplaceAllString(bodies.ReplaceAllString(up, "''"), ""), "''")
	for statement := range strings.SplitSeq(up, ";") {
		s := strings.Join(strings.Fields(statement), " ")
		if s == "" {
			continue
		}
		m.statements = append(m.statements, s)
		if match := createsTable.FindStringSubmatch(s); match != nil {
			m.fresh[match[1]] = true
		}
		if match := createsIndex.FindStringSubmatch(s); match != nil {
			m.rebuilt[match[1]] = true
		}
	}
	return m
}

// refused lists the statements beside which old processes cannot work, or payments would wait.
func (m migration) refused() []string {
	return slices.DeleteFunc(slices.Clone(m.statements), m.allows)
}

func (m migration) allows(s string) bool {
	if on := onTable.FindStringSubmatch(s); createsTable.MatchString(s) || on != nil && m.fresh[on[1]] {
		return true
	}
	if index := dropsIndex.FindStringSubmatch(s); index != nil && m.rebuilt[index[1]] || createsIndex.MatchString(s) {
		return m.alone
	}
	if alters := altersTable.FindStringSubmatch(s); alters != nil {
		for _, action := range actions(alters[1]) {
			if !allowsAction(action) && (!m.safe || !onceSafeAction.MatchString(action)) {
				return false
			}
		}
		return true
	}
	return alwaysHarmless.MatchString(s) || m.safe && onceSafe.MatchString(s)
}

func allowsAction(action string) bool {
	if !addsColumn.MatchString(action) {
		return harmless.MatchString(action)
	}
	return !unusualColumn.MatchString(action) && (!notNull.MatchString(action) || fallback.MatchString(action)) &&
		(!computed.MatchString(action) || stable.MatchString(action))
}

// actions splits what follows ALTER TABLE at the commas outside of brackets.
func actions(list string) []string {
	var all []string
	depth, begin := 0, 0
	for i, c := range list {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			all, begin = append(all, strings.TrimSpace(list[begin:i])), i+1
		}
	}
	return append(all, strings.TrimSpace(list[begin:]))
}

// River's files are what its library runs, so they can be no other. What River's old clients bear is in its changelog,
// and make rolling shows it.
func TestMigrationsAfterTheFirstReleaseLetOldProcessesRun(t *testing.T) {
	t.Parallel()
	all := releases(t)
	released := func(version string) bool {
		return slices.ContainsFunc(all, func(r release) bool { return r.version == version })
	}
	for name := range migrationFiles(t) {
		if len(all) == 0 || all[0].files[name] != "" || riverFile.MatchString(name) {
			continue
		}
		for _, s := range readMigration(read(t, name), released).refused() {
			t.Errorf("%s: old processes cannot run beside it, or payments wait for it: %s\n"+
				"docs/adr/0059-old-and-new-over-one-schema.md says what to do instead", name, s)
		}
	}
}

func TestWhatALaterMigrationMayHold(t *testing.T) {
	t.Parallel()
	const safe, unreleased = "-- Safe since 1.0.0: nobody reads it\n", "-- Safe since 9.0.0: nobody reads it\n"
	for _, row := range []struct {
		sql     string
		allowed bool
	}{
		{"CREATE TABLE a (id bigint PRIMARY KEY); CREATE UNIQUE INDEX i ON a (id); ALTER TABLE a ADD CHECK (id > 0)", true},
		{"CREATE TABLE a (id bigint); INSERT INTO a VALUES (1); CREATE TRIGGER x BEFORE UPDATE ON a EXECUTE FUNCTION f()", true},
		{"CREATE INDEX i ON payments (id)", false},
		{"-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS i; CREATE INDEX CONCURRENTLY i ON payments (id)", true},
		{"CREATE INDEX CONCURRENTLY i ON payments (id)", false}, // PostgreSQL refuses it in a transaction
		{"-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS i", false},
		{"-- +goose NO TRANSACTION\nCREATE UNIQUE INDEX CONCURRENTLY i ON payments (id)", false},
		{"ALTER TABLE payments ADD COLUMN note text", true},
		{"ALTER TABLE payments ADD COLUMN note text, ADD COLUMN n numeric(4, 2) NOT NULL DEFAULT 0", true},
		{"ALTER TABLE payments ADD COLUMN note text, DROP COLUMN n", false},
		{"ALTER TABLE payments ADD COLUMN note text NOT NULL", false},
		{"ALTER TABLE payments ADD COLUMN note text UNIQUE", false},
		{"ALTER TABLE payments ADD COLUMN note text CHECK (note <> '')", false},
		{"ALTER TABLE payments ADD COLUMN at timestamptz NOT NULL DEFAULT payonce_now()", true},
		{"ALTER TABLE payments ADD COLUMN id2 uuid NOT NULL DEFAULT gen_random_uuid()", false},
		{"ALTER TABLE payments DROP COLUMN note", false},
		{safe + "ALTER TABLE payments DROP COLUMN note", true},
		{unreleased + "ALTER TABLE payments DROP COLUMN note", false},
		{"DROP TABLE refunds", false},
		{safe + "DROP TABLE refunds", true},
		{"ALTER TABLE payments RENAME COLUMN note TO notes", false},
		{safe + "ALTER TABLE payments RENAME COLUMN note TO notes", false},
		{safe + "ALTER TABLE payments RENAME TO moneys", false},
		{safe + "ALTER TABLE payments ALTER COLUMN note TYPE bytea", false},
		{"ALTER TABLE payments ALTER COLUMN note SET NOT NULL", false},
		{safe + "ALTER TABLE payments ALTER COLUMN note SET NOT NULL", true},
		{"ALTER TABLE payments ALTER COLUMN note DROP NOT NULL", false},
		{"ALTER TABLE payments ADD CONSTRAINT c CHECK (note <> '') NOT VALID", false},
		{safe + "ALTER TABLE payments ADD CONSTRAINT c CHECK (note <> '') NOT VALID", true},
		{safe + "ALTER TABLE payments ADD CONSTRAINT c CHECK (note <> '')", false}, // it reads the table under a lock
		{"ALTER TABLE payments VALIDATE CONSTRAINT c", true},
		{"ALTER TABLE payments SET (autovacuum_vacuum_scale_factor = 0)", true},
		{"ALTER TABLE payments SET UNLOGGED", false},
		{"CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP TABLE x; END $$", true},
		{"CREATE TRIGGER x BEFORE UPDATE ON payments EXECUTE FUNCTION f()", false},
		{safe + "CREATE TRIGGER x BEFORE UPDATE ON payments EXECUTE FUNCTION f()", true},
		{"UPDATE payments SET note = 'DROP; nothing'", false},
		{"DELETE FROM payments", false},
		{"INSERT INTO payments DEFAULT VALUES", false},
		{"DO $$ BEGIN DROP TABLE refunds; END $$", false},
		{"GRANT SELECT ON payments TO payonce_api", false}, // rights are in roles/
		{"TRUNCATE payments", false},
		{"LOCK TABLE payments", false},
		{"SELECT 1", false},
		{"CREATE TABLE a (id bigint); -- +goose Down\nDROP TABLE a;", true},
		{"-- DROP TABLE refunds;\nCREATE TABLE a (id bigint)", true},
	} {
		m := readMigration("-- +goose Up\n"+row.sql, func(version string) bool { return version == "1.0.0" })
		if refused := m.refused(); (len(refused) == 0) != row.allowed {
			t.Errorf("%s\nallowed: %t, want %t (refused: %s)", row.sql, len(refused) == 0, row.allowed,
				fmt.Sprint(refused))
		}
	}
}
