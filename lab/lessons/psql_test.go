package lessons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// driverWindow prints what psql would print, for machines without psql. Where psql is there, the same pages are run in
// psql too (windows_test.go), so a difference between the two is found.
type driverWindow struct {
	name     string
	conn     *pgconn.PgConn
	notices  strings.Builder // written while a statement runs, read after it
	printed  chan string
	finished chan struct{}
	cancel   context.CancelFunc
}

func openDriverWindow(ctx context.Context, url, name string) (window, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	w := &driverWindow{name: name, printed: make(chan string, 1)}
	config.RuntimeParams["search_path"] = schema
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { w.notices.WriteString(message((*pgconn.PgError)(n))) }
	w.conn, err = pgconn.ConnectConfig(ctx, config)
	return w, err
}

func (w *driverWindow) pid() uint32 { return w.conn.PID() }

// prompt is what the setting of the pages makes of PROMPT1, A%R%x> .
func (w *driverWindow) prompt() string {
	transaction := map[byte]string{'I': "", 'T': "*", 'E': "!"}[w.conn.TxStatus()]
	return w.name + "=" + transaction + "> "
}

func (w *driverWindow) start(ctx context.Context, statement string) error {
	w.finished = make(chan struct{})
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		defer close(w.finished)
		var text strings.Builder
		results := w.conn.Exec(ctx, statement)
		for results.NextResult() {
			text.WriteString(result(results.ResultReader()))
		}
		if err := results.Close(); err != nil {
			text.WriteString(failure(err))
		}
		// psql prints a notice when it arrives, which is before the result.
		w.printed <- w.notices.String() + text.String()
		w.notices.Reset()
	}()
	return nil
}

func (w *driverWindow) output() (string, bool, error) {
	select {
	case text := <-w.printed:
		<-w.finished
		return text, true, nil
	default:
		return "", false, nil
	}
}

// close ends a statement that still waits first: nobody else may use the connection meanwhile.
func (w *driverWindow) close(ctx context.Context) {
	if w.finished != nil {
		w.cancel()
		<-w.finished
	}
	_ = w.conn.Close(ctx)
}

// result is what psql prints of one result: its rows, if it has columns, and its command tag, if it is no SELECT.
func result(r *pgconn.ResultReader) string {
	fields := slices.Clone(r.FieldDescriptions())
	var rows [][]string
	for r.NextRow() {
		var row []string
		for _, value := range r.Values() {
			row = append(row, string(value))
		}
		rows = append(rows, row)
	}
	tag, err := r.Close()
	if err != nil {
		return "" // the caller prints it
	}
	if len(fields) == 0 {
		return tag.String() + "\n"
	}
	if tag.Select() {
		return table(fields, rows)
	}
	return table(fields, rows) + tag.String() + "\n"
}

// table is psql's aligned format with its usual border.
func table(fields []pgconn.FieldDescription, rows [][]string) string {
	widths := make([]int, len(fields))
	for i, f := range fields {
		widths[i] = utf8.RuneCountInString(f.Name)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var head, rule []string
	for i, f := range fields {
		space := widths[i] - utf8.RuneCountInString(f.Name)
		head = append(head, " "+strings.Repeat(" ", space/2)+f.Name+strings.Repeat(" ", space-space/2)+" ")
		rule = append(rule, strings.Repeat("-", widths[i]+2))
	}
	lines := []string{strings.Join(head, "|"), strings.Join(rule, "+")}
	for _, row := range rows {
		var cells []string
		for i, value := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(value))
			if alignedRight(fields[i].DataTypeOID) {
				cells = append(cells, " "+space+value+" ")
			} else {
				cells = append(cells, " "+value+space+" ")
			}
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	unit := "rows"
	if len(rows) == 1 {
		unit = "row"
	}
	return strings.Join(lines, "\n") + fmt.Sprintf("\n(%d %s)\n\n", len(rows), unit)
}

func alignedRight(oid uint32) bool {
	switch oid {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID,
		pgtype.OIDOID, pgtype.XIDOID, pgtype.CIDOID:
		return true
	}
	return false
}

// failure is what psql prints of an error.
func failure(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return "the connection failed: " + err.Error() + "\n"
	}
	return message(refused)
}

// message is an error or a notice as psql prints it. The position of an error is left out: no session has one.
func message(e *pgconn.PgError) string {
	text := e.Severity + ":  " + e.Message + "\n"
	for _, part := range []struct{ name, text string }{
		{"DETAIL", e.Detail}, {"HINT", e.Hint},
	} {
		if part.text != "" {
			text += part.name + ":  " + part.text + "\n"
		}
	}
	return text
}
