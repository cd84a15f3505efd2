package deploy_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/config"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var sqlBlock = regexp.MustCompile("(?s)\n```sql\n(.*?)```\n")

// The SQL of the documentation reads, and only reads, the tables that there are.
func TestSQLOfTheDocumentationRuns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	pages, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, page := range append(pages, guide) {
		for _, block := range sqlBlock.FindAllStringSubmatch(read(t, page), -1) {
			run++
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
			if err != nil {
				t.Fatal(err)
			}
			// The simple protocol takes several statements at once.
			if _, err := tx.Exec(t.Context(), block[1], pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(page), err, block[1])
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if run < 10 {
		t.Errorf("only %d blocks of SQL were found", run)
	}
}

const guide = "../docs/reconciliation.md"

// kinds reads the kinds of dead letters from the source: constants have no list at run time.
func kinds(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/deadletters/deadletters.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if named, ok := spec.Type.(*ast.Ident); ok && named.Name == "Kind" && len(spec.Values) == 1 {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				kind, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, kind)
			}
		}
		return true
	})
	if len(all) < 10 {
		t.Fatalf("found only the kinds %v", all)
	}
	slices.Sort(all)
	return all
}

// table returns the rows below a heading, up to the next one, each by its cells without code quotes.
func table(t *testing.T, page, heading string) [][]string {
	t.Helper()
	_, section, found := strings.Cut(read(t, page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows [][]string
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

func TestGuideExplainsEachKindOfDeadLetter(t *testing.T) {
	t.Parallel()
	var explained []string
	for _, row := range table(t, guide, "Dead letters") {
		explained = append(explained, row[0])
	}
	slices.Sort(explained)
	if want := kinds(t); !slices.Equal(explained, want) {
		t.Errorf("explained are\n%v\nthere are\n%v", explained, want)
	}
}

func TestAlertsNameKindsThatThereAre(t *testing.T) {
	t.Parallel()
	known, named := kinds(t), 0
	for _, a := range alerts(t) {
		for _, match := range regexp.MustCompile(`payonce_dead_letters_open\{kind=~"([^"]*)"`).FindAllStringSubmatch(
			a.Expr, -1) {
			for kind := range strings.SplitSeq(match[1], "|") {
				named++
				if !slices.Contains(known, kind) {
					t.Errorf("%s names the kind %q", a.Alert, kind)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no alert singles out a kind")
	}
}

var settingForm = regexp.MustCompile(`(?m)^  ([A-Z_]+) +(\S*)  `)

func TestGuideGivesTheSettingsWithTheirDefaults(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	if err := config.Describe(&help, nil, config.API{}, config.Reconciler{}); err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, match := range settingForm.FindAllStringSubmatch(help.String(), -1) {
		defaults[match[1]] = match[2]
	}
	rows := table(t, guide, "Settings")
	if len(rows) < 5 {
		t.Errorf("%s has %d settings", guide, len(rows))
	}
	for _, row := range rows {
		fallback, ok := defaults[row[0]]
		if !ok || row[1] != fallback {
			t.Errorf("%s says that %s is %q, it is %q", guide, row[0], row[1], fallback)
		}
	}
}

var picture = regexp.MustCompile(`!\[([^\]]+)\]\((?:\.\./)?(pictures/[^)]+)\)`)

// Each picture is shown by a page, is told in words to those who do not see it, and is small enough to clone.
func TestPicturesAreShownToldAndSmall(t *testing.T) {
	t.Parallel()
	const docs, longest = "../docs/", 150_000
	told := map[string]string{}
	for _, pattern := range []string{docs + "*.md", docs + "runbooks/*.md", docs + "adr/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			for _, shown := range picture.FindAllStringSubmatch(read(t, page), -1) {
				told[docs+shown[2]] = shown[1]
			}
		}
	}
	files, err := filepath.Glob(docs + "pictures/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("there are no pictures")
	}
	for _, file := range files {
		if len(told[file]) < 100 {
			t.Errorf("the text of %s is %q", file, told[file])
		}
		if size := len(read(t, file)); size > longest {
			t.Errorf("%s has %d bytes, more than %d", file, size, longest)
		}
		delete(told, file)
	}
	for file := range told {
		t.Errorf("there is no %s", file)
	}
}
