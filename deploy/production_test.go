package deploy_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

const production = "../docs/production.md"

// truth is what there is, for the checklist to be held against.
type truth struct {
	settings []string // also those of api roles
	metrics  registered
	alerts   []alert
	programs string // the usage of the programs, and the targets of make
	contract string // openapi.yaml
	objects  map[string]object
	asks     func(path string) int // of the operator's side
}

// rolesPasswords are settings of api roles alone.
var rolesPasswords = []string{"API_PASSWORD", "RECONCILER_PASSWORD", "MIGRATOR_PASSWORD"}

func theTruth(t *testing.T) truth {
	t.Helper()
	settings, err := config.Load(processOf(t, "Deployment payonce-api").getenv)
	if err != nil {
		t.Fatal(err)
	}
	api, err := app.NewAPI(t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	makefile := regexp.MustCompile(`(?m)^([a-z-]+):`).ReplaceAllString(read(t, "../Makefile"), "  make $1 ")
	return truth{
		append(settingsOf(t, config.API{}, config.Reconciler{}), rolesPasswords...), metrics(t), alerts(t),
		read(t, "../cmd/api/main.go") + read(t, "../cmd/reconciler/main.go") +
			read(t, "../cmd/reconciler/operations.go") + makefile,
		read(t, "../internal/httpapi/openapi.yaml"), objects(t),
		func(path string) int {
			answer := httptest.NewRecorder()
			api.Operator.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
			return answer.Code
		},
	}
}

// What a page names, in code.
var (
	settingNamed = regexp.MustCompile("`([A-Z][A-Z]+_?[A-Z_]*)(?:=[^`]*)?`")
	metricNamed  = regexp.MustCompile(`\bpayonce_[a-z_]+`)
	alertNamed   = regexp.MustCompile("`(Payonce[A-Za-z]+)`")
	commandNamed = regexp.MustCompile("(?m)(?:^|`|&& )((?:api|reconciler|make) [a-z]+)")
	operatorPath = regexp.MustCompile("(?:localhost:808[13]|`)(/[a-z/-]+)")
	publicPath   = regexp.MustCompile("`(?:GET|POST) (/[^ `]+)`")
	fileNamed    = regexp.MustCompile(`\bdeploy/[a-z]+(?:/[a-z.]+[a-z])?`)
	objectNamed  = regexp.MustCompile(`\b(job|deployment)/([a-z-]+)`)
	item         = regexp.MustCompile(`(?m)^- \[ \] (?:.*\n)(?:  .*\n)*`)
)

// wrong lists what a page names and there is not, items that nobody can check, and what is missing.
func (have truth) wrong(page string) []string {
	var found []string
	unknown := func(form *regexp.Regexp, known func(name string) bool) {
		for _, match := range form.FindAllStringSubmatch(page, -1) {
			if name := match[len(match)-1]; !known(name) {
				found = append(found, name+" does not exist")
			}
		}
	}
	unknown(settingNamed, func(name string) bool { return slices.Contains(have.settings, name) })
	unknown(metricNamed, func(name string) bool {
		_, metric := have.metrics[name]
		return metric || slices.Contains(postgres.Roles(), postgres.Role(name))
	})
	unknown(alertNamed, func(name string) bool {
		return slices.ContainsFunc(have.alerts, func(a alert) bool { return a.Alert == name })
	})
	unknown(commandNamed, func(name string) bool { return strings.Contains(have.programs, "\n  "+name+" ") })
	unknown(operatorPath, func(path string) bool { return have.asks(path) != http.StatusNotFound })
	unknown(publicPath, func(path string) bool {
		return regexp.MustCompile(`(?m)^  ` + strings.ReplaceAll(regexp.QuoteMeta(path), `\{id\}`, `\{\w+\}`) +
			`:$`).MatchString(have.contract)
	})
	unknown(fileNamed, func(path string) bool { _, err := os.Stat("../" + path); return err == nil })
	for _, match := range objectNamed.FindAllStringSubmatch(page, -1) {
		kind := strings.ToUpper(match[1][:1]) + match[1][1:]
		if _, there := have.objects[kind+" "+match[2]]; !there {
			found = append(found, match[0]+" does not exist")
		}
	}
	return slices.Concat(found, unchecked(page), have.missing(page))
}

// unchecked lists items that give no way to check them.
func unchecked(page string) []string {
	items := item.FindAllString(page, -1)
	var found []string
	if len(items) < 20 {
		found = append(found, fmt.Sprintf("there are only %d items", len(items)))
	}
	for _, each := range items {
		if _, check, said := strings.Cut(each, "Check"); !said || !strings.Contains(check, "`") {
			found = append(found, "nobody can check: "+each)
		}
	}
	return found
}

// missing lists secrets that the page does not rotate, alerts that page and are not named, and Secrets that it does not
// have made.
func (have truth) missing(page string) []string {
	var found []string
	_, rotation, _ := strings.Cut(page, "\n## Secrets\n")
	rotation, _, _ = strings.Cut(rotation, "\n## ")
	for _, name := range have.settings {
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]*\\|")
		if secretName.MatchString(name) && !row.MatchString(rotation) {
			found = append(found, name+" is a secret, and is not rotated")
		}
	}
	for _, a := range have.alerts {
		if a.Labels["severity"] == "page" && !strings.Contains(page, "`"+a.Alert+"`") {
			found = append(found, a.Alert+" pages, and is not named")
		}
	}
	_, made, _ := strings.Cut(page, "\nfor s in ")
	made, _, _ = strings.Cut(made, ";")
	for _, o := range have.objects {
		for _, c := range o.Spec.Template.Spec.Containers {
			for _, v := range c.Env {
				if name := v.ValueFrom.SecretKeyRef.Name; name != "" && !slices.Contains(strings.Fields(made), name) {
					found = append(found, "the Secret "+name+" is made by nobody")
				}
			}
		}
	}
	return found
}

func TestChecklistNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, wrong := range theTruth(t).wrong(read(t, production)) {
		t.Error(wrong)
	}
}

func TestWhatIsWrongWithAChecklistIsFound(t *testing.T) {
	t.Parallel()
	page, have := read(t, production), theTruth(t)
	for _, row := range []struct{ old, new, want string }{
		{"`DRAIN_DELAY`", "`DRAIN_TIME`", "DRAIN_TIME does not exist"},
		{"payonce_dead_letters_open", "payonce_dead_letters", "payonce_dead_letters does not exist"},
		{"`PayonceStoreErrors`", "`PayonceStoreError`", "PayonceStoreError does not exist"},
		{"`PayonceStoreErrors`", "others", "PayonceStoreErrors pages"},
		{"`api keys list`", "`api key list`", "api key does not exist"},
		{"`make rolling`", "`make rollling`", "make rollling does not exist"},
		{"`reconciler scan`", "`reconciler scans`", "reconciler scans does not exist"},
		{"`/livez`", "`/healthz`", "/healthz does not exist"},
		{"localhost:8083/readyz", "localhost:8083/ready", "/ready does not exist"},
		{"`GET /events`", "`GET /event`", "/event does not exist"},
		{"/{id}/rotate`", "/{id}/renew`", "renew does not exist"},
		{"payonce.rules.yml", "rules.yml", "rules.yml does not exist"},
		{"job/payonce-migrate", "job/migrate", "job/migrate does not exist"},
		{"| `CONSOLE_SECRET` |", "| the console |", "CONSOLE_SECRET is a secret"},
		{"Check: `make rolling`", "", "nobody can check"},
		{"- [ ]", "-", "there are only"},
		{"payonce-psp", "psp", "the Secret payonce-psp"},
	} {
		count := 1
		if row.old == "- [ ]" || row.old == "payonce-psp" {
			count = -1
		}
		broken := strings.Replace(page, row.old, row.new, count)
		found := strings.Join(have.wrong(broken), "\n")
		if broken == page || !strings.Contains(found, row.want) {
			t.Errorf("%s instead of %s: found %q, want %q", row.new, row.old, found, row.want)
		}
	}
}

var sqlCommand = regexp.MustCompile(`psql "\$DATABASE_URL"\s+-c\s+"([^"]+)"`)

// ofTheChecklist gives its commands of SQL to a database that has an endpoint, and a setting that loses commits.
func ofTheChecklist(t *testing.T, page string, run func(tx pgx.Tx, sql string)) {
	t.Helper()
	pool := pgtest.New(t)
	for _, sql := range []string{
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = local', current_database()); END $$`,
		`INSERT INTO webhook_endpoints (tenant_id, id, url, secret)
		 VALUES ('acme', gen_random_uuid(), 'https://shop.example', decode(repeat('00', 32), 'hex'))`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	found := sqlCommand.FindAllStringSubmatch(page, -1)
	if len(found) < 5 {
		t.Errorf("only %d commands were found", len(found))
	}
	for _, match := range found {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run(tx, match[1])
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestSQLOfTheChecklistRuns(t *testing.T) {
	t.Parallel()
	disabled, forgets := int64(0), false
	ofTheChecklist(t, read(t, production), func(tx pgx.Tx, sql string) {
		if strings.HasPrefix(sql, "UPDATE webhook_endpoints") {
			done, err := tx.Exec(t.Context(), sql)
			if disabled = done.RowsAffected(); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
			return
		}
		rows, err := tx.Query(t.Context(), sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			return
		}
		for rows.Next() {
			forgets = forgets || string(rows.RawValues()[0]) == "synchronous_commit=local"
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	})
	if disabled != 1 {
		t.Errorf("%d endpoints are disabled before the reconciler starts, want 1", disabled)
	}
	if !forgets {
		t.Error("nobody sees a setting of one database by which it loses commits")
	}
}

// What comes after a command that has failed would run on a schema that is not there.
func TestUpdateOfTheChecklistStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	_, update, _ := strings.Cut(read(t, production), "\nFor each update, ")
	_, update, _ = strings.Cut(update, "```sh\n")
	update, _, _ = strings.Cut(update, "```")
	const commands = 8
	if n := strings.Count(update, "kubectl "); n != commands {
		t.Fatalf("the update has %d commands, want %d:\n%s", n, commands, update)
	}
	for fails := 1; fails <= commands; fails++ {
		script := fmt.Sprintf("n=0\nkubectl() { n=$((n+1)); echo $n; [ $n -ne %d ]; }\n%s", fails, update)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
		if ran := strings.Count(string(out), "\n"); ran != fails || err == nil {
			t.Errorf("command %d has failed, and %d commands ran: %v", fails, ran, err)
		}
	}
}

// The passwords are settings of a command that has a help of its own.
func TestPasswordsOfTheRolesAreThoseThatThereAre(t *testing.T) {
	t.Parallel()
	source := []byte(read(t, "../internal/admin/database.go"))
	named := regexp.MustCompile(`"([A-Z]+_PASSWORD)"`).FindAllSubmatch(source, -1)
	for _, match := range named {
		if !slices.ContainsFunc(rolesPasswords, func(name string) bool { return bytes.Equal(match[1], []byte(name)) }) {
			t.Errorf("%s is not among %v", match[1], rolesPasswords)
		}
	}
	if len(named) != len(rolesPasswords) {
		t.Errorf("api roles has %d passwords, want %d", len(named), len(rolesPasswords))
	}
}
