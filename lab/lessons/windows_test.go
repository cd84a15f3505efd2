package lessons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"payonce/test/pgtest"
)

// schema is where the sessions' tables are: a reader tries them in the demo's database, beside Payonce's own tables.
const schema = "course"

const lessonWithCommands = "../../course/lessons/02-two-at-once.md"

var psqlBlock = regexp.MustCompile("(?ms)^```psql\n(.*?)^```$")

// pagesWithSessions are all pages of ours that may have psql blocks.
func pagesWithSessions(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../course/lessons/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, "../../docs/sources.md")
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// newDatabase is an empty database with the schema of the sessions.
func newDatabase(t *testing.T) string {
	t.Helper()
	url := pgtest.NewURL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	return url
}

// newStage has windows in the driver, or in psql if there is a command that opens it.
func newStage(t *testing.T, url, command string) *stage {
	t.Helper()
	observer, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{windows: map[string]window{}}
	s.waitsOn = func(ctx context.Context, pids []uint32) (all [][]uint32, err error) {
		for _, pid := range pids {
			var blockers []int32
			if err := observer.QueryRow(ctx, "SELECT pg_blocking_pids($1)", int32(pid)).Scan(&blockers); err != nil {
				return nil, err
			}
			var unsigned []uint32
			for _, b := range blockers {
				unsigned = append(unsigned, uint32(b))
			}
			all = append(all, unsigned)
		}
		return all, nil
	}
	pidOf := func(application string) (pid uint32, err error) {
		var number pgtype.Int4
		err = observer.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE application_name = $1 AND datname = current_database()`, application).Scan(&number)
		return uint32(number.Int32), err
	}
	s.open = func(ctx context.Context, name string) (window, error) {
		if command == "" {
			return openDriverWindow(ctx, url, name)
		}
		return openTerminalWindow(ctx, url, command, name, pidOf)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.close(ctx)
		_ = observer.Close(ctx)
	})
	return s
}

// playPage types all sessions of a page, one after the other, and returns the page with what comes out.
func playPage(t *testing.T, s *stage, page string) string {
	t.Helper()
	var failed error
	played := psqlBlock.ReplaceAllStringFunc(page, func(block string) string {
		if failed != nil {
			return block
		}
		var entries []entry
		var text string
		if entries, failed = parseSession(psqlBlock.FindStringSubmatch(block)[1]); failed == nil {
			text, failed = s.play(t.Context(), entries)
		}
		return "```psql\n" + text + "```"
	})
	if failed != nil {
		t.Fatal(failed)
	}
	return played
}

// compare reports the first line that differs. Spaces at the ends of lines are not compared: many editors remove them.
func compare(got, want string) error {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = strings.TrimRight(gotLines[i], " ")
		}
		if i < len(wantLines) {
			w = strings.TrimRight(wantLines[i], " ")
		}
		if g != w {
			return fmt.Errorf("line %d is\n\t%s\nand the page says\n\t%s\n(go test ./lessons -update writes the page)", i+1, g, w)
		}
	}
	return nil
}

var spacesAtTheEnd = regexp.MustCompile(`(?m) +$`)

func TestSessionsPrintWhatThePagesSay(t *testing.T) {
	t.Parallel()
	for _, name := range pagesWithSessions(t) {
		if !psqlBlock.MatchString(readPage(t, name)) {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			page := readPage(t, name)
			played := playPage(t, newStage(t, newDatabase(t), ""), page)
			if *update {
				if err := os.WriteFile(name, []byte(spacesAtTheEnd.ReplaceAllString(played, "")), 0o600); err != nil {
					t.Fatal(err)
				}
				page = readPage(t, name)
			}
			if err := compare(played, page); err != nil {
				t.Fatal(err)
			}
			t.Run("in psql", func(t *testing.T) {
				t.Parallel()
				command := psqlCommand(t)
				url := pgtest.NewURL(t)
				lesson := readPage(t, lessonWithCommands)
				runLine(t, url, makesSchema.FindString(lesson))
				if err := compare(playPage(t, newStage(t, url, command), page), page); err != nil {
					t.Error(err)
				}
				runLine(t, url, removesSchema.FindString(lesson))
			})
		})
	}
}

// A reader tries the sample that is of interest. No session needs another one.
func TestEachSessionOfTheSourcesStandsAlone(t *testing.T) {
	t.Parallel()
	for _, block := range psqlBlock.FindAllString(readPage(t, "../../docs/sources.md"), -1) {
		first, _, _ := strings.Cut(strings.TrimPrefix(block, "```psql\n"), "\n")
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			if err := compare(playPage(t, newStage(t, newDatabase(t), ""), block), block); err != nil {
				t.Error(err)
			}
		})
	}
}

// The lesson's own lines make the schema and remove it.
var (
	makesSchema   = regexp.MustCompile(`(?m)^psql .*CREATE SCHEMA.*$`)
	removesSchema = regexp.MustCompile(`(?m)^psql .*DROP SCHEMA.*$`)
)

func runLine(t *testing.T, url, line string) {
	t.Helper()
	if line == "" {
		t.Fatal("the lesson does not make or remove the schema")
	}
	command := exec.CommandContext(t.Context(), "bash", "-c", line)
	command.Env = append(os.Environ(), "DATABASE_URL="+url)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

var windowCommand = regexp.MustCompile(`(?m)^(PGOPTIONS=.* psql .*PROMPT1='A.*)$`)

// psqlCommand is the command that the lesson gives its readers to open a window.
func psqlCommand(t *testing.T) string {
	t.Helper()
	command := windowCommand.FindString(readPage(t, lessonWithCommands))
	if command == "" {
		t.Fatal("the lesson does not say how to open a window")
	}
	for _, program := range []string{"psql", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here; the driver has played this page", program)
		}
	}
	probe := exec.Command("true")
	terminal, err := onTerminal(probe)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("terminals are made for Linux only; the driver has played this page")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = probe.Wait()
	_ = terminal.Close()
	return command
}

// Two windows on one page are what a reader has. Here is what the harness itself says of bad pages.
func TestBadSessionIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ block, want string }{
		"another output":     {"A=> SELECT 1 AS one;\n one\n-----\n   2\n(1 row)\n", "the page says"},
		"a wait left out":    {lockedRow + "A=*> COMMIT;\nCOMMIT\nUPDATE 1\n", "the page says"},
		"a wait that is not": {"A=> BEGIN;\nBEGIN\n-- A waits for B.\nA=*> COMMIT;\nCOMMIT\n", "the page says"},
		"nobody goes on":     {lockedRow, "while these windows wait"},
		"typing in a window that waits": {lockedRow + "B=> SELECT 1;\n",
			"takes no statement"},
		"an open transaction":  {"A=> BEGIN;\nBEGIN\n", "is in a transaction"},
		"no semicolon":         {"A=> SELECT 1\n", "has no semicolon"},
		"two statements":       {"A=> BEGIN; COMMIT;\n", "more than one statement"},
		"nothing":              {"-- Nobody is here.\n", "nobody types"},
		"another prompt state": {"A=*> SELECT 1 AS one;\n one\n-----\n   1\n(1 row)\n", "the page says"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, err := parseSession(c.block)
			if err == nil {
				var got string
				if got, err = newStage(t, newDatabase(t), "").play(t.Context(), entries); err == nil {
					err = compare(got, c.block)
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the session ends with %v, want an error with %q", err, c.want)
			}
		})
	}
}

const lockedRow = `A=> CREATE TABLE rows AS SELECT 1 AS id;
SELECT 1
A=> BEGIN;
BEGIN
A=*> UPDATE rows SET id = 1;
UPDATE 1
B=> UPDATE rows SET id = 1;
`

// A statement that takes long and waits for nobody is not reported as waiting.
func TestSlowStatementDoesNotWait(t *testing.T) {
	t.Parallel()
	entries := []entry{{"A", "SELECT 1 AS one FROM pg_sleep(0.3);"}}
	got, err := newStage(t, newDatabase(t), "").play(t.Context(), entries)
	if err == nil {
		err = compare(got, "A=> SELECT 1 AS one FROM pg_sleep(0.3);\n one\n-----\n   1\n(1 row)\n")
	}
	if err != nil {
		t.Error(err)
	}
}
