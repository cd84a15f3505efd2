package embeddedpg

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
)

// recorder passes the messages of a log on.
type recorder struct{ messages chan<- string }

func recordInto(messages chan<- string) *slog.Logger { return slog.New(recorder{messages}) }

func (recorder) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler             { return r }
func (r recorder) WithGroup(string) slog.Handler                  { return r }

func (r recorder) Handle(_ context.Context, record slog.Record) error {
	r.messages <- record.Message
	return nil
}

// execute runs SQL and returns its error.
func execute(t *testing.T, url, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), sql)
	return err
}
