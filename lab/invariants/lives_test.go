package invariants

import "testing"

// A key that was deleted is judged by what the archive has of it: answer, attempts and timeline.
func TestDeletedKeyIsJudgedByTheArchive(t *testing.T) {
	t.Parallel()
	s := lived(t)
	if err := Archive(t.Context(), s.db); err != nil {
		t.Fatal(err)
	}
	const it = " WHERE k.tenant_id = 'acme' AND k.operation = 'POST /payments' AND k.key = '" + lostKey + "'"
	s.exec("UPDATE idempotency_keys AS k SET status = 'expired', delete_after = clock_timestamp()" + it)
	s.exec(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
		SELECT tenant_id, operation, key, generation, attempt, 'pruner', 'completed', 'expired', 'retention over' FROM idempotency_keys AS k` + it)
	s.exec(`WITH gone AS (DELETE FROM idempotency_keys AS k` + it + ` RETURNING tenant_id, operation, key)
		DELETE FROM idempotency_key_events AS e USING gone AS g WHERE (e.tenant_id, e.operation, e.key) = (g.tenant_id, g.operation, g.key)`)
	for _, v := range s.check() {
		t.Error(v)
	}
	s.breach("UPDATE lab.ended_keys SET attempt = 2")
	s.finds("I8", "the row is expired in attempt 2")
	s.breach("UPDATE lab.ended_keys SET response_body = 'no'")
	s.finds("I3", "told otherwise than is stored")
}

func TestGenerationThatNamesTwoPaymentsIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	s.breach("UPDATE payments SET idempotency_key = '" + paidKey +
		"' WHERE tenant_id = 'acme' AND idempotency_key = '" + lostKey + "'")
	s.finds("I1", "is generation 1 of the key")
}
