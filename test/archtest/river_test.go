package archtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"payonce/test/pgtest"
)

// After an upgrade of River: go test ./test/archtest -run River -update
// It writes the versions that are missing under the next free numbers; the
// test then names files that differ, which a human has to look at.
var update = flag.Bool("update", false, "write goose files for River versions that have none")

const migrationsDir = "db/migrations"

// The file name's goose number is free (River's next version will come after
// files of ours); the River version in the name is what identifies it.
var riverFileName = regexp.MustCompile(`^(\d{5})_river_v(\d+)\.sql$`)

func TestRiverFilesAreWhatRivermigrateWouldRun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(moduleRoot(t), migrationsDir)
	if *update {
		writeMissingRiverFiles(t, dir)
	}

	versions := riverVersions(t)
	files := riverFiles(t, dir)
	for _, version := range versions {
		name, ok := files[version.Version]
		if !ok {
			t.Errorf("River's schema version %d has no goose file; see -update", version.Version)
			continue
		}
		delete(files, version.Version)

		got := readFile(t, filepath.Join(dir, name))
		head, body, _ := strings.Cut(got, "\n")
		if !strings.HasPrefix(head, "-- River v") || !strings.Contains(head, "MPL-2.0") {
			t.Errorf("%s: the first line must name River's version and licence, it is %q", name, head)
		}
		if diff := cmp.Diff(gooseBody(version), body); diff != "" {
			t.Errorf("%s differs from the River library in go.mod (-library +file):\n%s", name, diff)
		}
	}
	for version, name := range files {
		t.Errorf("%s: the River library in go.mod knows no schema version %d", name, version)
	}
}

func TestRiverFilesComeInRiversOrder(t *testing.T) {
	t.Parallel()
	files := riverFiles(t, filepath.Join(moduleRoot(t), migrationsDir))
	var names []string
	for _, version := range riverVersions(t) {
		if name, ok := files[version.Version]; ok {
			names = append(names, name)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("goose applies files by number, which would run River's versions out of order: %v", names)
	}
}

// riverVersions asks the library, by the same call that its own migrator
// uses. No database is touched: a driver without a pool knows its SQL.
func riverVersions(t *testing.T) []rivermigrate.Migration {
	t.Helper()
	migrator, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		t.Fatalf("open River's migrations: %v", err)
	}
	return migrator.AllVersions()
}

// riverFiles maps River's schema versions to the goose files that hold them.
func riverFiles(t *testing.T, dir string) map[int]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("list migrations: %v", err)
	}
	files := map[int]string{}
	for _, entry := range entries {
		match := riverFileName.FindStringSubmatch(entry.Name())
		if match == nil {
			continue
		}
		version, err := strconv.Atoi(match[2])
		if err != nil {
			t.Fatalf("read River version of %s: %v", entry.Name(), err)
		}
		if other, taken := files[version]; taken {
			t.Fatalf("%s and %s both claim River's schema version %d", other, entry.Name(), version)
		}
		files[version] = entry.Name()
	}
	return files
}

// gooseBody renders everything below the heading line. The bookkeeping in
// river_migration is what rivermigrate adds around each version: the table
// has no `line` before version 5, and is gone below version 1.
func gooseBody(m rivermigrate.Migration) string {
	insert := fmt.Sprintf("INSERT INTO river_migration (version) VALUES (%d);", m.Version)
	remove := fmt.Sprintf("DELETE FROM river_migration WHERE version = %d;", m.Version)
	if m.Version >= 5 {
		insert = fmt.Sprintf("INSERT INTO river_migration (line, version) VALUES ('main', %d);", m.Version)
	}
	if m.Version > 5 {
		remove = fmt.Sprintf("DELETE FROM river_migration WHERE line = 'main' AND version = %d;", m.Version)
	}
	if m.Version == 1 {
		remove = ""
	}
	body := "-- +goose Up\n" + gooseDirection(m.SQLUp) + insert + "\n" +
		"\n-- +goose Down\n" + gooseDirection(m.SQLDown) + remove
	return strings.TrimSpace(body) + "\n"
}

var trailingSpace = regexp.MustCompile(`(?m)[ \t]+$`)

// gooseDirection renders one direction for the default schema. goose splits
// at semicolons and would cut a function body in two, so a text that holds
// one goes as a single statement.
func gooseDirection(sql string) string {
	sql = strings.ReplaceAll(sql, "/* TEMPLATE: schema */", "")
	sql = strings.TrimSpace(trailingSpace.ReplaceAllString(sql, "")) + "\n"
	if strings.Contains(sql, "$") {
		return "-- +goose StatementBegin\n" + sql + "-- +goose StatementEnd\n"
	}
	return sql
}

func writeMissingRiverFiles(t *testing.T, dir string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}",
		"github.com/riverqueue/river/riverdriver/riverpgxv5").Output()
	if err != nil {
		t.Fatalf("ask go list for River's version: %v", err)
	}
	files := riverFiles(t, dir)
	for _, version := range riverVersions(t) {
		if _, ok := files[version.Version]; ok {
			continue
		}
		name := fmt.Sprintf("%05d_river_v%d.sql", nextGooseNumber(t, dir), version.Version)
		head := fmt.Sprintf("-- River %s, schema version %d (%s). Licence: MPL-2.0, see RIVER-LICENSE.\n",
			strings.TrimSpace(string(output)), version.Version, version.Name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head+gooseBody(version)), 0o644); err != nil {
			t.Fatalf("write River migration: %v", err)
		}
		t.Logf("wrote %s", name)
	}
}

func nextGooseNumber(t *testing.T, dir string) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "[0-9][0-9][0-9][0-9][0-9]_*.sql"))
	if err != nil {
		t.Fatalf("list migrations: %v", err)
	}
	last := 0
	for _, path := range paths {
		number, err := strconv.Atoi(filepath.Base(path)[:5])
		if err != nil {
			t.Fatalf("read goose number of %s: %v", path, err)
		}
		last = max(last, number)
	}
	return last + 1
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read file: %v", err)
	}
	return string(content)
}

func TestMain(m *testing.M) { pgtest.Main(m) }

// Our files do River's bookkeeping, so River's own check passes on a database
// that rivermigrate has never seen.
func TestRiverAcceptsTheSchemaThatGooseMade(t *testing.T) {
	t.Parallel()
	migrator, err := rivermigrate.New(riverpgxv5.New(pgtest.New(t)), nil)
	if err != nil {
		t.Fatalf("open River's migrations: %v", err)
	}
	result, err := migrator.Validate(t.Context(), nil)
	if err != nil {
		t.Fatalf("let River validate its schema: %v", err)
	}
	if !result.OK {
		t.Errorf("River refuses its schema: %v", result.Messages)
	}
}
