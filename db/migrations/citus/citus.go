// Package citus makes a function of each transaction of a tenant, for an installation whose tables of tenants
// are distributed by Citus (docs/citus.md). The worker that has the tenant runs the function as one transaction, on the
// shards themselves, and commits it alone. One server runs the same statements without any of this.
//
// It owns the text of the functions, and nothing else: package postgres makes and calls them.
package citus

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed *.sql
var files embed.FS

// File is a file of this folder.
func File(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // It was there when this program was built.
	}
	return string(text)
}

// Names are the transactions that become functions, by the names of their statements (db/queries). All rows of such a
// transaction belong to one tenant. What is not named here is sent as statements through the coordinator. A statement
// that writes a line of a timeline cannot be here: the coordinator numbers these lines. Nor can one about a table of
// the coordinator.
func Names() [][]string {
	return [][]string{
		// A charge: the key and its payment, the PSP's object, the outcome.
		{"ReserveKeys", "BeginPayments"},
		{"ReserveKeys", "BeginPayments", "Durable"},
		{"RememberObject"},
		{"CompleteKeys", "RecordPayments"},
		{"CompleteKeys", "RecordAndTell"},
		{"CompleteKeys", "RecordPayments", "WriteEvents"},
		// A refund: between the lock of its payment and the payment's totals.
		{"ReserveKeys", "LockPayment", "BeginRefund", "TallyRefunds"},
		{"ReserveKeys", "LockPayment", "BeginRefund", "TallyRefunds", "Durable"},
		{"CompleteKeys", "LockPayment", "RecordRefund", "TallyRefunds"},
		{"CompleteKeys", "LockPayment", "RecordRefund", "TallyRefunds", "WriteEvents"},
		{"CompleteKeys", "LockPayment", "RecordRefund", "TallyRefunds", "WriteEvents", "WriteEvents"},
		// A read that must be durable where the tenant is, and not on the coordinator.
		{"FindKey", "Durable"},
		{"GetPayment", "Durable"},
		{"FindRefund", "Durable"},
	}
}

// Transactions are the texts of the statements of each transaction.
func Transactions() [][]string {
	texts := map[string]string{}
	for _, text := range statements(File("statements.sql")) {
		texts[NameOf(text)] = text
	}
	var all [][]string
	for _, names := range Names() {
		var transaction []string
		for _, name := range names {
			transaction = append(transaction, texts[name])
		}
		all = append(all, transaction)
	}
	return all
}

var (
	nameLine  = regexp.MustCompile(`^-- name: (\w+) :\w+\n`)
	parameter = regexp.MustCompile(`\$(\d+)`)
	// tenant is where a statement takes its tenant from: a value, or the elements of an array.
	tenant     = regexp.MustCompile(`tenant_id = \$(\d+)|unnest\(\$(\d+)::text\[\]\) AS tenant_id`)
	tenants    = regexp.MustCompile(`unnest\((\$\d+::text\[\])\) AS tenant_id`)
	sameTenant = regexp.MustCompile(`(\w+\.tenant_id) = \w+\.tenant_id`)
	// table is a table of tenants where a statement reads or writes it.
	table = regexp.MustCompile(`((?:\b(?:FROM|JOIN|INTO|UPDATE|USING)|,)\s+)` +
		`(tenants|idempotency_key(?:s|_events|_tombstones)|payments|refunds|disputes|events)( AS | WHERE |\s+\()`)
)

func statements(file string) []string {
	var all []string
	for text := range strings.SplitSeq(file, "\n-- name: ") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, "-- name: "+strings.TrimPrefix(text, "-- name: ")+"\n")
		}
	}
	return all
}

// NameOf is the name of a statement, or nothing if it has none.
func NameOf(text string) string {
	if found := nameLine.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// TenantOf finds the parameter of a statement that names the tenant, or returns 0.
func TenantOf(text string) int {
	found := tenant.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1] + found[2])
	return n
}

// NameTenant adds the tenants to each join of a statement over arrays. By the join alone, Citus does not see which
// shards have the rows: it sends the statement to all workers, or refuses it.
func NameTenant(text string) string {
	array := tenants.FindStringSubmatch(text)
	if array == nil {
		return text
	}
	return sameTenant.ReplaceAllString(text, "$0 AND $1 = ANY ($"+array[1]+")")
}

// form is what the functions take and return, beside their statements. Count on whenever that changes.
const form = "2\n"

// FunctionOf is the name of a transaction's function. It changes with the text of a statement and with form, so old and
// new programs call their own functions, side by side.
func FunctionOf(texts []string) string {
	sum := sha256.New()
	sum.Write([]byte(form))
	name := "payonce"
	for _, text := range texts {
		sum.Write([]byte(strings.TrimSpace(text) + "\n"))
		name += "_" + strings.ToLower(NameOf(text))
	}
	return name[:min(len(name), 50)] + "_" + hex.EncodeToString(sum.Sum(nil))[:12]
}

// Shape is what PostgreSQL says of a statement: the types of its parameters, and whether it returns rows.
type Shape struct {
	Parameters []string
	Returns    bool
}

// Shards are the names of a tenant's tables by the shard of its keys: Shards[102008]["payments"] is "payments_102040".
type Shards map[int64]map[string]string

// before is how many parameters each function has before those of its statements: the tenant, and how long to wait for
// a lock.
const before = 2

// WideGrants asks for the statements that repeat the rights of a role ($1) on whole tables.
const WideGrants = "SELECT * FROM payonce_wide_grants($1)"

// CallOf is the statement that calls the function of a transaction. It has the names of the statements, so that the
// views of the server show what is called.
func CallOf(texts []string) string {
	n, names := before, []string{}
	for _, text := range texts {
		names = append(names, NameOf(text))
		last := 0
		for _, found := range parameter.FindAllStringSubmatch(text, -1) {
			p, _ := strconv.Atoi(found[1])
			last = max(last, p)
		}
		n += last
	}
	name := strings.Join(names, " ")
	return fmt.Sprintf("-- name: %s :call\nSELECT %s(%s)", name, FunctionOf(texts), arguments(n))
}

// arguments are "$1, $2" for two.
func arguments(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(all, ", ")
}

// Function is the statement that makes the function of a transaction. keys are the shards of the keys, in order.
//
// The function returns one array, because that costs each server less than rows do. It has three things of each
// statement: the number of rows as an int8, the rows that it returns in the binary form of a record, and a NULL.
func Function(texts []string, shapes []Shape, keys []int64, shards Shards) string {
	parameters := []string{"text", "text"}
	for _, s := range shapes {
		parameters = append(parameters, s.Parameters...)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `CREATE OR REPLACE FUNCTION %s(%s)
RETURNS bytea[] LANGUAGE plpgsql AS $payonce$
#variable_conflict use_column
DECLARE shard bigint; affected bigint; these bytea[]; sent bytea[];
BEGIN
    IF $2 <> '' THEN
        PERFORM set_config('lock_timeout', $2, true);
    END IF;
    shard := payonce_shard('idempotency_keys', $1);
    CASE shard
`, FunctionOf(texts), strings.Join(parameters, ", "))
	for _, key := range keys {
		fmt.Fprintf(&b, "    WHEN %d THEN\n", key)
		steps(&b, texts, shapes, func(text, into string) string {
			return table.ReplaceAllStringFunc(text, func(found string) string {
				m := table.FindStringSubmatch(found)
				return m[1] + shards[key][m[2]] + m[3]
			}) + into
		})
	}
	b.WriteString("    ELSE\n")
	steps(&b, texts, shapes, func(text, into string) string {
		return fmt.Sprintf("EXECUTE payonce_on_shard($sql$%s$sql$, shard)%s USING %s",
			table.ReplaceAllString(text, "$1{$2}$3"), into, arguments(len(parameters)))
	})
	b.WriteString("    END CASE;\n    RETURN sent;\nEND $payonce$")
	return b.String()
}

// steps writes the statements, with the parameters that they have in the function. onShard writes a statement for the
// shards, with an INTO for its one row if it returns any.
func steps(b *bytes.Buffer, texts []string, shapes []Shape, onShard func(text, into string) string) {
	first := before
	for i, text := range texts {
		text = strings.TrimSpace(nameLine.ReplaceAllString(text, ""))
		text = parameter.ReplaceAllStringFunc(text, func(found string) string {
			n, _ := strconv.Atoi(found[1:])
			return fmt.Sprintf("$%d", n+first)
		})
		first += len(shapes[i].Parameters)
		if shapes[i].Returns {
			fmt.Fprintf(b, "%s;\nsent := sent || int8send(cardinality(these)) || these || NULL::bytea;\n",
				onShard(sent(text), " INTO these"))
			continue
		}
		fmt.Fprintf(b, "%s;\nGET DIAGNOSTICS affected = ROW_COUNT;\nsent := sent || int8send(affected) || NULL::bytea;\n",
			onShard(text, ""))
	}
}

// sent makes a statement a step of a query that returns its rows as an array of records.
func sent(text string) string {
	before, last := "WITH ", text
	if at := mainOf(text); at > 0 {
		before, last = strings.TrimSpace(text[:at])+", ", text[at:]
	}
	return fmt.Sprintf("%srows_of_it AS (\n%s\n) SELECT coalesce(array_agg(record_send(r)), '{}') FROM rows_of_it AS r",
		before, last)
}

// mainOf is where the statement behind WITH begins, or 0 if there is no WITH.
func mainOf(text string) int {
	if !strings.HasPrefix(text, "WITH ") {
		return 0
	}
	depth, quoted := 0, false
	for i := len("WITH"); i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], "\nSELECT"),
			depth == 0 && strings.HasPrefix(text[i:], "\nINSERT"),
			depth == 0 && strings.HasPrefix(text[i:], "\nUPDATE"),
			depth == 0 && strings.HasPrefix(text[i:], "\nDELETE"):
			return i + 1
		}
	}
	return 0
}
