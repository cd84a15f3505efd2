package migrations_test

import (
	"fmt"
	"maps"
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
	// IF NOT EXISTS could mean a table that is in use: it may have no form.
	createsTable = regexp.MustCompile(`(?i)^CREATE TABLE (\w+) \(`)
	onTable      = regexp.MustCompile(`(?i)^(?:ALTER TABLE (?:ONLY )?|INSERT INTO |CREATE (?:UNIQUE )?INDEX \w+ ON |` +
		`CREATE TRIGGER .*? ON )(\w+) `)
	altersTable    = regexp.MustCompile(`(?i)^ALTER TABLE (?:ONLY )?\w+ (.*)$`)
	createsIndex   = regexp.MustCompile(`(?i)^CREATE INDEX CONCURRENTLY (\w+) ON \w+`)
	dropsIndex     = regexp.MustCompile(`(?i)^DROP INDEX CONCURRENTLY IF EXISTS (\w+)$`)
	alwaysHarmless = regexp.MustCompile(`(?i)^(?:CREATE (?:FUNCTION|VIEW|TYPE|SEQUENCE)|COMMENT ON) `)

	// What binds a new table to one that is in use. A row that something refers to cannot be deleted, and old processes
	// delete: the pruner would fail. WITH can change any table.
	refersTo   = regexp.MustCompile(`(?i)\bREFERENCES (\w+)`)
	bindsOther = regexp.MustCompile(`(?i)\b(?:INHERITS?|ATTACH|WITH (?:RECURSIVE )?\w+ (?:\([^)]*\) )?AS)\b`)

	// A new column has a plain type, and at most a default that is computed once. Another one, such as a serial number
	// or a random one, is computed for each row: that rewrites the table, and payments wait.
	addsColumn = regexp.MustCompile(`(?i)^ADD COLUMN \w+ (\w+)(?:\([\d, ]+\))?(?:\[\])?(?: COLLATE "")?( NOT NULL)?` +
		`( DEFAULT (?:''|-?\d+(?:\.\d+)?|true|false|(?:now|payonce_now)\(\))(?:::\w+)?)?( NOT NULL)?$`)
	serial   = regexp.MustCompile(`(?i)^\w*serial\d?$`)
	harmless = regexp.MustCompile(`(?i)^(?:VALIDATE CONSTRAINT |SET \((?:fillfactor|autovacuum_))`)

	// What an old process may mind, unless the file says which version minds no more.
	onceSafe = regexp.MustCompile(`(?i)^(?:DROP (?:TABLE|FUNCTION|VIEW|TYPE|TRIGGER|INDEX CONCURRENTLY) |` +
		`CREATE TRIGGER |CREATE OR REPLACE (?:FUNCTION|VIEW) |CREATE UNIQUE INDEX CONCURRENTLY |ALTER TYPE \w+ ADD VALUE |` +
		`(?:INSERT INTO|UPDATE|DELETE FROM) )`)
	onceSafeAction = regexp.MustCompile(`(?i)^(?:DROP (?:COLUMN|CONSTRAINT) |ALTER COLUMN \w+ (?:SET NOT NULL|` +
		`DROP NOT NULL|SET DEFAULT .*|DROP DEFAULT)$|ADD CONSTRAINT .* (?:NOT VALID|USING INDEX \w+)$)`)
	safeSince = regexp.MustCompile(`(?m)^-- Safe since (\d+\.\d+\.\d+): \S`)

	down      = regexp.MustCompile(`(?m)^-- \+goose Down`)
	riverFile = regexp.MustCompile(`^\d{5}_river_v\d+\.sql$`)

	// A comment, a literal, a name in quotation marks, a body: what begins first, ends first.
	quoted = regexp.MustCompile(`(?s)--[^\n]*|'(?:[^']|'')*'|"[^"]*"|\$\$.*?\$\$`)
	// What begins none of these, and could end elsewhere than it seems to: /*, $tag$, E'\''.
	unreadable = regexp.MustCompile(`(?i)/\*|\$|\b(?:E|U&)''`)
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
	for statement := range strings.SplitSeq(plain(down.Split(text, 2)[0]), ";") {
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

// plain takes out comments, and what is in quotation marks and bodies. So no semicolon and no word of them counts.
func plain(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(s string) string {
		switch s[0] {
		case '-':
			return ""
		case '"':
			return `""`
		default:
			return "''"
		}
	})
}

// refused lists the statements beside which old processes cannot work, or payments would wait.
func (m migration) refused() []string {
	return slices.DeleteFunc(slices.Clone(m.statements), m.allows)
}

func (m migration) allows(s string) bool {
	if unreadable.MatchString(s) {
		return false
	}
	if on := onTable.FindStringSubmatch(s); createsTable.MatchString(s) || on != nil && m.fresh[on[1]] {
		return !m.binds(s)
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

// binds reports whether a statement about a new table concerns a table that is in use.
func (m migration) binds(s string) bool {
	return bindsOther.MatchString(s) || slices.ContainsFunc(refersTo.FindAllStringSubmatch(s, -1),
		func(to []string) bool { return !m.fresh[to[1]] })
}

func allowsAction(action string) bool {
	column := addsColumn.FindStringSubmatch(action)
	if column == nil {
		return harmless.MatchString(action)
	}
	mustHaveValue, hasDefault := column[2]+column[4] != "", column[3] != ""
	return !serial.MatchString(column[1]) && (!mustHaveValue || hasDefault)
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

// refusals judges each file that came after the first release. A version that a file calls safe must have been released
// before the file was.
//
// River's files are what its library runs, so they can be no other. What River's old clients bear is in its changelog,
// and make rolling shows it.
func refusals(all []release, texts map[string]string) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if len(all) == 0 || all[0].files[name] != "" || riverFile.MatchString(name) {
			continue
		}
		earlier := all
		if own := slices.IndexFunc(all, func(r release) bool { return r.files[name] != "" }); own >= 0 {
			earlier = all[:own]
		}
		released := func(version string) bool {
			return slices.ContainsFunc(earlier, func(r release) bool { return r.version == version })
		}
		for _, s := range readMigration(texts[name], released).refused() {
			found = append(found, fmt.Sprintf("%s: old processes cannot run beside it, or payments wait for it: %s\n"+
				"docs/adr/0059-old-and-new-over-one-schema.md says what to do instead", name, s))
		}
	}
	return found
}

func TestMigrationsAfterTheFirstReleaseLetOldProcessesRun(t *testing.T) {
	t.Parallel()
	for _, refusal := range refusals(releases(t), migrationTexts(t)) {
		t.Error(refusal)
	}
}

func TestVersionThatIsSafeWasReleasedBeforeTheFile(t *testing.T) {
	t.Parallel()
	all := []release{{"1.0.0", map[string]string{"00001_a.sql": "x"}}, {"1.1.0", map[string]string{"00002_b.sql": "x"}}}
	for text, want := range map[string]int{
		"-- Safe since 1.0.0: nobody reads it\nDROP TABLE a;": 0,
		"-- Safe since 1.1.0: nobody reads it\nDROP TABLE a;": 1, // this release's old processes are those of 1.0.0
	} {
		found := refusals(all, map[string]string{"00001_a.sql": "DROP TABLE a;", "00002_b.sql": text})
		if len(found) != want {
			t.Errorf("%s\nrefused: %s, want %d", text, found, want)
		}
	}
	if found := refusals(all, map[string]string{"00003_like_river_v9.sql": "DROP TABLE a;"}); len(found) != 1 {
		t.Errorf("a file is taken for River's: %s", found)
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
		{"CREATE TABLE IF NOT EXISTS payments (id bigint); ALTER TABLE payments DROP COLUMN note", false},
		{"CREATE TABLE public.a (id bigint)", false},
		{"CREATE TABLE a (id bigint); CREATE TABLE b (a bigint REFERENCES a (id))", true},
		{"CREATE TABLE a (p uuid REFERENCES payments (id))", false}, // the old pruner's DELETE would fail
		{"CREATE TABLE a (p uuid); ALTER TABLE a ADD FOREIGN KEY (p) REFERENCES payments (id)", false},
		{"CREATE TABLE a (p uuid) INHERITS (payments)", false},
		{"CREATE TABLE a (p uuid); ALTER TABLE a INHERIT payments", false},
		{"CREATE TABLE a (p uuid) PARTITION BY LIST (p); ALTER TABLE a ATTACH PARTITION payments DEFAULT", false},
		{"CREATE TABLE a (p uuid); INSERT INTO a SELECT id FROM payments", true},
		{"CREATE TABLE a (p uuid); INSERT INTO a WITH d AS (DELETE FROM payments RETURNING id) TABLE d", false},
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
		{"ALTER TABLE payments ADD COLUMN id2 uuid DEFAULT (gen_random_uuid())", false},
		{"ALTER TABLE payments ADD COLUMN id2 uuid DEFAULT pg_catalog.gen_random_uuid()", false},
		{"ALTER TABLE payments ADD COLUMN n float8 DEFAULT 1 + random()", false},
		{"ALTER TABLE payments ADD COLUMN n bigint NOT NULL DEFAULT NULL", false},
		{"ALTER TABLE payments ADD COLUMN n bigserial", false},
		{"ALTER TABLE payments ADD COLUMN n serial", false},
		{"ALTER TABLE payments ADD COLUMN IF NOT EXISTS n bigint", false},
		{"ALTER TABLE payments ADD COLUMN n text COLLATE \"C\" DEFAULT 'a -- b'::text NOT NULL", true},
		{"ALTER TABLE payments ADD COLUMN n text[]", true},
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
		{"CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP TABLE x; END $$", false},
		{safe + "CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP TABLE x; END $$", true},
		{"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP TABLE x; END $$", true},
		{"CREATE OR REPLACE VIEW v AS SELECT 1", false},
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
		{"CREATE TABLE a (id bigint);\n-- +goose Down\nDROP TABLE a;", true},
		{"COMMENT ON TABLE a IS 'see \n-- b'; DROP TABLE refunds", false},
		{"COMMENT ON TABLE a IS 'a -- b'; DROP TABLE refunds;\n", false},
		{"COMMENT ON TABLE a IS '-- +goose Down'; DROP TABLE refunds", false},
		{"COMMENT ON TABLE a IS E'\\''; DROP TABLE refunds; COMMENT ON TABLE a IS E'\\''", false},
		{"COMMENT ON COLUMN a.\"'\" IS ''; DROP TABLE refunds; COMMENT ON COLUMN a.\"'\" IS ''", false},
		{"CREATE VIEW v AS SELECT 1 /* ' */; DROP TABLE b; CREATE VIEW w AS SELECT 1 /* ' */", false},
		{"CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $a$ ' $a$; DROP TABLE b; CREATE VIEW v AS $a$ ' $a$", false},
		{"SET lock_timeout = 0", false},
		{"-- DROP TABLE refunds;\nCREATE TABLE a (id bigint)", true},
	} {
		m := readMigration("-- +goose Up\n"+row.sql, func(version string) bool { return version == "1.0.0" })
		if refused := m.refused(); (len(refused) == 0) != row.allowed {
			t.Errorf("%s\nallowed: %t, want %t (refused: %s)", row.sql, len(refused) == 0, row.allowed,
				fmt.Sprint(refused))
		}
	}
}
