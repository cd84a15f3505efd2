package pgbench

import (
	"fmt"
	"strings"
)

// Script is what one pgbench client does over and over.
type Script struct {
	Name      string
	text      string
	variables map[string]string // beside those of the run
}

// Sample is what the API has written for a payment like those that are measured. The script writes the same.
type Sample struct {
	Tenant, Operation, Currency, CustomerID, PaymentMethod string
	AmountMinor                                            int64
	ContentType, Body                                      string
	SchemaVersion                                          int
}

// number is what makes a row's key and ids: the order of time in front, as in UUIDv7, and chance behind. A client
// counts in steps, so that all clients together go through the index from left to right.
const number = `\set n :n + 1
\set hi :base + :n * 128 + :client_id
\set lo random(1, 4611686018427387903)
`

// hex is a UUID in the hexadecimal form.
const hex = "(lpad(to_hex(:hi::bigint), 16, '0') || lpad(to_hex(:lo::bigint), 16, '0'))"

// values are the parameters of a payment's four statements, by the names that the generated code has for them. Those
// are statements over arrays: a payment is an array of one.
func (s Sample) values() map[string]string {
	id, key := hex+"::uuid", hex+"::uuid::text"
	return map[string]string{
		"TenantID": ":tenant", "Operation": ":operation", "Key": key, "Lease": ":lease", "Retention": ":retention",

		"TenantIds": "ARRAY[:tenant]", "Operations": "ARRAY[:operation]", "Keys": "ARRAY[" + key + "]",
		"Fingerprints": "ARRAY[:fingerprint]",
		"LeaseIds":     "ARRAY[" + id + "]", "Subjects": "ARRAY[" + id + "]", "Ids": "ARRAY[" + id + "]",
		"CustomerIds":  "ARRAY[:customer]",
		"AmountsMinor": fmt.Sprintf("ARRAY[%d]", s.AmountMinor), "Currencies": "ARRAY[:currency]",
		"PaymentMethods": "ARRAY[:method]",
		"Descriptions":   "ARRAY['']", "Metadata": "ARRAY[NULL]", "References": "ARRAY['']",
		"ResponseStatuses": "ARRAY[201]", "ResponseContentTypes": "ARRAY[:contenttype]",
		"ResponseLocations":      "ARRAY['/payments/' || " + hex + "]",
		"ResponseSchemaVersions": fmt.Sprintf("ARRAY[%d]", s.SchemaVersion), "ResponseBodies": "ARRAY[:body]",
		"Generations": "ARRAY[1]", "Attempts": "ARRAY[1]", "Statuses": "ARRAY['succeeded']",
		"PspChargeIds": "ARRAY['ch_' || " + hex + "]",
		"DeclineCodes": "ARRAY['']", "KeyStatuses": "ARRAY['completed']", "UnlessCharged": "ARRAY[false]",
		"Tells": "ARRAY[false]",
	}
}

func (s Sample) variables() map[string]string {
	return map[string]string{
		"operation": s.Operation, "tenant": s.Tenant, "customer": s.CustomerID, "currency": s.Currency,
		"method":      s.PaymentMethod,
		"contenttype": s.ContentType, "body": s.Body, "lease": "30 seconds", "retention": "48 hours", "n": "0",
		"fingerprint": `\x` + strings.Repeat("5a", 32),
	}
}

// The statements of a new payment, as the API sends them: the names are those of db/queries.
var (
	reserving  = []string{"idempotency.ReserveKeys", "payments.BeginPayments"}
	completing = []string{"idempotency.CompleteKeys", "payments.RecordPayments"}
)

// NewPayment is the API's own way: two transactions, each one round trip.
func NewPayment(queries map[string]Query, s Sample) (Script, error) {
	return s.script("new payment", queries, number, reserving, completing)
}

// Find is the one SELECT that a replay cannot do without.
func Find(queries map[string]Query, s Sample, rows int) (Script, error) {
	return s.replay("SELECT of a key", queries, rows, []string{"idempotency.FindKey"})
}

// Replay is what the API sends for a replay: the reservation that finds the row.
func Replay(queries map[string]Query, s Sample, rows int) (Script, error) {
	return s.replay("replay", queries, rows, reserving)
}

func (s Sample) replay(name string, queries map[string]Query, rows int, statements []string) (Script, error) {
	begin := fmt.Sprintf("\\set r random(1, %d)\n\\set hi 0\n\\set lo :r\n", rows)
	script, err := s.script(name, queries, begin, statements)
	script.text = strings.ReplaceAll(script.text, hex+"::uuid::text", LoadedKey(":r"))
	return script, err
}

// LoadedKey is the SQL for the key of a loaded row.
func LoadedKey(n string) string { return "('load-' || lpad((" + n + ")::text, 20, '0'))" }

// script puts groups of statements together, each of them a transaction in one round trip.
func (s Sample) script(name string, queries map[string]Query, begin string, groups ...[]string) (Script, error) {
	var b strings.Builder
	b.WriteString(begin)
	for _, group := range groups {
		b.WriteString("\\startpipeline\n")
		for _, query := range group {
			q, found := queries[query]
			if !found {
				return Script{}, fmt.Errorf("there is no query %s any more", query)
			}
			text, err := q.with(s.values())
			if err != nil {
				return Script{}, err
			}
			b.WriteString(text + "\n")
		}
		b.WriteString("\\endpipeline\n")
	}
	return Script{Name: name, text: b.String(), variables: s.variables()}, nil
}

// Event writes a webhook event and nothing else, in a transaction of its own. The API's writes its job, too.
func Event(body string) Script {
	return Script{Name: "event", variables: map[string]string{"body": body, "n": "0"},
		text: number + "INSERT INTO webhook_events (id, sent_at, body) VALUES ('evt_' || " + hex + "::uuid::text, " +
			"date_trunc('second', clock_timestamp()), :body) ON CONFLICT (id) DO NOTHING;\n"}
}
