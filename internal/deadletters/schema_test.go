package deadletters

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/test/pgtest"
)

// refusal is the constraint that refuses a statement, which is rolled back in any case.
func (f fixture) refusal(sql string, args ...any) string {
	f.t.Helper()
	return pgtest.RefusedBy(f.t, pgtest.TryRolledBack(f.t, f.pool, sql, args...))
}

// A script or an older program may write what this program never writes. Then the table is what keeps the list of cases
// and the audit readable.
func TestTableRefusesWhatIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	o := setup(t)
	row := func(columns, values string) string {
		return "INSERT INTO dead_letters (id, kind, finding, reason, evidence" + columns +
			") VALUES (gen_random_uuid(), 'psp_contradicts', 'f', 'r', '{}'" + values + ")"
	}
	resolved := func(actor, reason string) string {
		return row(", status, resolved_at, action, actor, resolution_reason",
			", 'resolved', now(), 'dismiss', '"+actor+"', '"+reason+"'")
	}
	long := strings.Repeat("x", 501)
	for sql, want := range map[string]string{
		row("", ""):                                 "",
		row(", status", ", 'lost'"):                 "dead_letters_status_check",
		row(", tenant_id", ", 'acme'"):              "dead_letters_key_whole_or_absent",
		resolved("ann", "seen to it"):               "",
		resolved("", "seen to it"):                  "dead_letters_actor_check",
		resolved(long[:151], "seen to it"):          "dead_letters_actor_check",
		resolved("ann", ""):                         "dead_letters_resolution_reason_check",
		resolved("ann", long):                       "dead_letters_resolution_reason_check",
		row(", actor", ", 'ann'"):                   "dead_letters_resolution_iff_resolved",
		row(", status, actor", ", 'resolved', 'a'"): "dead_letters_resolution_iff_resolved",
	} {
		if got := o.refusal(sql); got != want {
			t.Errorf("%s: refused by %q, want %q", sql, got, want)
		}
	}
}

func TestTableRefusesWhatIsNoActionOfAnOperator(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.put(l)
	const insert = `INSERT INTO operator_actions
		(dead_letter_id, dead_letter_version, actor, action, reason, outcome, detail)
		VALUES ($1, 1, $2, 'retry', $3, $4, $5)`
	long := strings.Repeat("x", 501)
	for _, c := range []struct {
		id                             uuid.UUID
		actor, reason, outcome, detail string
		want                           string
	}{
		{l.ID, "ann", "r", "done", "", ""},
		{uuid.Must(uuid.NewV7()), "ann", "r", "done", "", "operator_actions_dead_letter_id_fkey"},
		{l.ID, "", "r", "done", "", "operator_actions_actor_check"},
		{l.ID, long[:151], "r", "done", "", "operator_actions_actor_check"},
		{l.ID, "ann", "", "done", "", "operator_actions_reason_check"},
		{l.ID, "ann", long, "done", "", "operator_actions_reason_check"},
		{l.ID, "ann", "r", "begun", "", "operator_actions_outcome_check"},
		{l.ID, "ann", "r", "refused", long, "operator_actions_detail_check"},
	} {
		if got := o.refusal(insert, c.id, c.actor, c.reason, c.outcome, c.detail); got != c.want {
			t.Errorf("%+v: refused by %q", c, got)
		}
	}
}

// An audit row is about a dead letter, with a reason, or about an endpoint.
func TestAuditRowIsAboutOneThing(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.put(l)
	const insert = `INSERT INTO operator_actions
		(dead_letter_id, dead_letter_version, reason, endpoint_id, tenant_id, actor, action, outcome)
		VALUES ($1, $2, $3, $4, $5, 'ann', 'a', 'done')`
	const about = "operator_actions_about_one_thing"
	endpoint := uuid.Must(uuid.NewV7())
	for _, c := range []struct {
		deadLetter, version, reason, endpoint, tenant any
		want                                          string
	}{
		{l.ID, 1, "r", nil, nil, ""},
		{nil, nil, nil, endpoint, "acme", ""},
		{nil, nil, nil, nil, nil, about},
		{nil, nil, nil, endpoint, nil, about},
		{l.ID, 1, "r", nil, "acme", about},
		{l.ID, 1, "r", endpoint, "acme", about},
		{l.ID, 1, nil, nil, nil, about},
		{l.ID, nil, "r", nil, nil, about},
		{nil, nil, "r", endpoint, "acme", about},
	} {
		if got := o.refusal(insert, c.deadLetter, c.version, c.reason, c.endpoint, c.tenant); got != c.want {
			t.Errorf("%+v: refused by %q", c, got)
		}
	}
}

// What a dead letter forbids follows from what was found: money that has moved forbids to answer with a decline.
func TestEvidenceSaysWhatADeadLetterHolds(t *testing.T) {
	t.Parallel()
	for evidence, want := range map[string]string{
		`{"record": {"status": "succeeded"}}`: "decline", `{"answer": {"status": "succeeded"}}`: "decline",
		`{"record": {"status": "declined"}}`: "release", `{}`: "release",
	} {
		o := setup(t)
		l := aDeadLetter()
		l.Evidence = []byte(evidence)
		o.keyAsIs(*l.About, *l.Subject, "unknown")
		o.put(l)
		if hold := o.hold(); hold != want {
			t.Errorf("%s holds %s, want %s", evidence, hold, want)
		}
	}
}
