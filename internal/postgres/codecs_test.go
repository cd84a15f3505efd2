package postgres

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// What is written is what pgx reads, and no element of an array costs an object.
func TestArraysAreWrittenInTheServersForm(t *testing.T) {
	m := pgtype.NewMap()
	register(m)
	written(t, m, pgtype.TextArrayOID, []string{"a", "", "한"})
	written(t, m, pgtype.TextArrayOID, []string{})
	written(t, m, pgtype.UUIDArrayOID, []uuid.UUID{uuid.Max, {}})
	written(t, m, pgtype.Int2ArrayOID, []int16{-1, 1 << 14})
	written(t, m, pgtype.Int4ArrayOID, []int32{-1, 1 << 30})
	written(t, m, pgtype.Int8ArrayOID, []int64{-1, 1 << 62})
	written(t, m, pgtype.ByteaArrayOID, [][]byte{{0, 1}, {}, nil})
	written(t, m, pgtype.JSONBArrayOID, [][]byte{[]byte(`{"a":1}`), nil})
}

func written[T any](t *testing.T, m *pgtype.Map, oid uint32, elements []T) {
	t.Helper()
	raw, err := m.Encode(oid, pgtype.BinaryFormatCode, elements, nil)
	if err != nil {
		t.Fatal(err)
	}
	var read []T
	if err := pgtype.NewMap().Scan(oid, pgtype.BinaryFormatCode, raw, &read); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(elements, read); diff != "" {
		t.Errorf("written otherwise (-want +got):\n%s", diff)
	}
	value := any(elements)
	if n := testing.AllocsPerRun(10, func() { _, _ = m.Encode(oid, pgtype.BinaryFormatCode, value, raw[:0]) }); n > 0 {
		t.Errorf("%T costs %v objects", elements, n)
	}
}

func TestColumnsAreReadWithoutAPlanForEach(t *testing.T) {
	m := pgtype.NewMap()
	register(m)
	at, id := time.UnixMicro(1_800_000_000_000_001), uuid.Max
	readBack(t, m, pgtype.TimestamptzOID, at, new(time.Time), at)
	readBack(t, m, pgtype.UUIDOID, id, new(uuid.UUID), id)
}

func readBack[T comparable](t *testing.T, m *pgtype.Map, oid uint32, value any, into *T, want T) {
	t.Helper()
	raw, err := m.Encode(oid, pgtype.BinaryFormatCode, value, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(10, func() { err = m.PlanScan(oid, pgtype.BinaryFormatCode, into).Scan(raw, into) })
	if err != nil || *into != want || n > 0 {
		t.Errorf("read as %v with %v objects: %v; want %v", *into, n, err, want)
	}
}
