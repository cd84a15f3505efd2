package contract

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
)

// Elsewhere stands in a Row for every path and method that the document does not have.
const Elsewhere = "elsewhere"

// Row is one thing that the document promises: an operation, a status, and for a problem its code.
type Row struct {
	Operation string // such as "POST /payments", or Elsewhere
	Status    int
	Code      string // empty unless the answer is a problem
}

// Rows lists all rows of the document, in order.
func (d *Document) Rows() []Row {
	var rows []Row
	for _, o := range append(slices.Collect(maps.Values(d.operations)), d.elsewhere) {
		for status, described := range o.answers {
			if described.codes == nil {
				rows = append(rows, Row{Operation: o.name, Status: status})
			}
			for _, code := range described.codes {
				rows = append(rows, Row{Operation: o.name, Status: status, Code: code})
			}
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

// Unseen lists the rows that no exchange has shown so far, in order. Only exchanges without a complaint count.
func (d *Document) Unseen() []Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(d.Rows(), func(r Row) bool { return d.seen[r] > 0 })
}

// Seen tells how many exchanges have shown the row so far.
func (d *Document) Seen(r Row) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[r]
}

// Fresh returns the same document with an empty tally.
func (d *Document) Fresh() *Document {
	return &Document{router: d.router, operations: d.operations, elsewhere: d.elsewhere, seen: map[Row]int{}}
}

// note counts an exchange. A HEAD has no body to read a code from, so it counts for no problem.
func (d *Document) note(operation string, described answer, e exchange) {
	row := Row{Operation: operation, Status: e.status}
	if described.codes != nil {
		var p struct {
			Code string `json:"code"`
		}
		if e.method == http.MethodHead || json.Unmarshal(e.answer, &p) != nil {
			return
		}
		row.Code = p.Code
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[row]++
}

func compareRows(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
}
