package blocks

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// perRow is how many blocks a statement may read for a row that it returns, changes or is asked about. WriteEvents
// reads most: of a refund, it reads the payment, the key, the disputes and the earlier events. Next is ExpireKeys: it
// changes the key in all its indexes, and writes a tombstone and a line of the timeline.
const perRow = 36

// conditions are what PostgreSQL knew when it planned a statement.
var conditions = map[string]func(*session){
	"grown from empty": func(s *session) {
		s.warm()
		s.grow(1, s.rows)
	},
	"analysed small, and grown a thousand times": func(s *session) {
		s.grow(1, s.rows/1000)
		s.elsewhere("ANALYZE")
		s.warm()
		s.grow(s.rows/1000+1, s.rows)
	},
	"restored without statistics": func(s *session) { s.grow(1, s.rows) },
}

func TestNoStatementReadsMoreThanAConstantTimesItsRows(t *testing.T) {
	t.Parallel()
	for name, arrange := range conditions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			arrange(s)
			for _, mode := range []string{"generic", "custom"} {
				s.run("SET plan_cache_mode = force_" + mode + "_plan")
				for statement := range statementsAsked {
					for _, n := range []int{1, 32} {
						if err := s.check(statement, n); err != nil {
							t.Errorf("%s for %d, %s plan: %v", statement, n, mode, err)
						}
					}
				}
			}
		})
	}
}

// An index that can serve for tenant and id is a trap on a table that has grown from empty. The check above notices it.
func TestAnIndexThatServesForEverythingIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it reads every statement without statistics")
	}
	t.Parallel()
	s := newSession(t)
	// DESC: customer-1000 is then among the last. A join that expects one row stops when it has found it.
	s.run(`DROP INDEX payments_by_customer;
		CREATE INDEX payments_by_customer ON payments (tenant_id, customer_id DESC, id)`)
	conditions["grown from empty"](s)
	for _, statement := range []string{"payments.GetPayment", "payments.RecordPayments"} {
		if err := s.check(statement, 1); err == nil || !strings.Contains(err.Error(), "payments_by_customer") {
			t.Errorf("%s with an index of all payments by tenant: %v; then the indexes can be simpler", statement, err)
		}
	}
}

func TestEveryStatementHasItsRows(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	asked := map[string]bool{}
	for name, row := range statementsAsked {
		asked[statementOf(name)] = true
		if s.all[statementOf(name)] == nil {
			t.Errorf("%s is no statement of db/queries any more", name)
		}
		if row.also > 0 && row.reads == "" {
			t.Errorf("%s reads more than its rows, and says not what", name)
		}
	}
	for name := range s.all {
		if !asked[name] {
			t.Errorf("%s is not in statementsAsked (rows_test.go)", name)
		}
	}
}

// check executes a statement for n rows, and compares what it reads with the rule.
func (s *session) check(name string, n int) error {
	read, rows, err := s.execute(name, n)
	if err != nil {
		return err
	}
	if rows == 0 {
		return errors.New("finds no row")
	}
	row := statementsAsked[name]
	most := 10 + perRow*max(rows, n, row.writes*n) + row.also*s.rows/100
	if read > most {
		// The first statement of a session that runs a trigger also reads the catalog for the trigger's plans.
		if read, _, err = s.execute(name, n); err != nil {
			return err
		}
	}
	if read > most {
		return fmt.Errorf("reads %d blocks for %d rows, and may read %d\n%s", read, rows, most, s.explain(name, n))
	}
	return nil
}
