package postgres

import (
	"encoding/binary"
	"reflect"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// register tells a connection how the values of a payment are written and read. pgx can do it by itself. But it makes
// an object for each element of an array, plans each column of each result again, and reads a uuid.UUID as a text. That
// was a quarter of the objects of a payment (docs/performance.md).
func register(m *pgtype.Map) {
	pgxuuid.Register(m)
	m.RegisterType(&pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuids{}})
	registerArray(m, pgtype.TextArrayOID, func(to []byte, s string) []byte { return append(to, s...) })
	registerArray(m, pgtype.UUIDArrayOID, func(to []byte, id uuid.UUID) []byte { return append(to, id[:]...) })
	registerArray(m, pgtype.Int2ArrayOID, func(to []byte, n int16) []byte {
		return binary.BigEndian.AppendUint16(to, uint16(n)) //nolint:gosec // the bits of a negative number
	})
	registerArray(m, pgtype.Int4ArrayOID, func(to []byte, n int32) []byte {
		return binary.BigEndian.AppendUint32(to, uint32(n)) //nolint:gosec // as above
	})
	registerArray(m, pgtype.Int8ArrayOID, func(to []byte, n int64) []byte {
		return binary.BigEndian.AppendUint64(to, uint64(n)) //nolint:gosec // as above
	})
	registerArray(m, pgtype.ByteaArrayOID, func(to []byte, b []byte) []byte {
		if b == nil {
			return nil
		}
		return append(to, b...)
	})
	registerArray(m, pgtype.JSONBArrayOID, func(to []byte, text []byte) []byte {
		if text == nil {
			return nil
		}
		return append(append(to, jsonbVersion), text...)
	})
	plain := m.Copy()
	for _, oid := range []uint32{pgtype.UUIDOID, pgtype.TimestamptzOID, pgtype.Int2OID, pgtype.TextOID} {
		t, _ := plain.TypeForOID(oid)
		kept := planned{t.Codec, plain, map[column]pgtype.ScanPlan{}}
		m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: kept})
	}
}

// jsonbVersion is what a jsonb begins with in the binary form.
const jsonbVersion = 1

// uuids is the codec of a uuid.UUID. For pgx alone, it is a sql.Scanner, which reads texts.
type uuids struct{ pgxuuid.UUIDCodec }

// PlanScan reads the bytes.
func (c uuids) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	plan, bytes, ok := pgxuuid.TryWrapUUIDScanPlan(target)
	if !ok {
		return c.UUIDCodec.PlanScan(m, oid, format, target)
	}
	plan.SetNext(c.UUIDCodec.PlanScan(m, oid, format, bytes))
	return plan
}

// planned is a codec that keeps the plans by which it reads. pgx itself uses a plan for all rows of a result, so a plan
// has no state. A connection has one user at a time, so the map needs no lock.
type planned struct {
	pgtype.Codec
	plain *pgtype.Map
	plans map[column]pgtype.ScanPlan
}

// column is what a plan depends on.
type column struct {
	format int16
	target reflect.Type
}

// PlanScan is pgx's own plan.
func (p planned) PlanScan(_ *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	of := column{format, reflect.TypeOf(target)}
	if p.plans[of] == nil {
		p.plans[of] = p.plain.PlanScan(oid, format, target)
	}
	return p.plans[of]
}

// array is the codec of an array, which writes a []T without an object for each element. write returns nil for NULL.
type array[T any] struct {
	*pgtype.ArrayCodec
	write func(to []byte, element T) []byte
}

func registerArray[T any](m *pgtype.Map, oid uint32, write func(to []byte, element T) []byte) {
	t, _ := m.TypeForOID(oid)
	codec, _ := t.Codec.(*pgtype.ArrayCodec)
	m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: array[T]{codec, write}})
}

// PlanEncode is pgx's own plan for everything but a []T.
func (a array[T]) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]T); ok && format == pgtype.BinaryFormatCode {
		return a
	}
	return a.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode writes the form that the server's array_recv reads: a header, and each element after its length.
func (a array[T]) Encode(value any, buf []byte) ([]byte, error) {
	elements, _ := value.([]T)
	const dimensions, mayHoldNULLs, lowerBound = 1, 1, 1
	length := uint32(len(elements)) //nolint:gosec // at most some hundreds
	for _, n := range [...]uint32{dimensions, mayHoldNULLs, a.ElementType.OID, length, lowerBound} {
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	for _, element := range elements {
		start := len(buf) + 4
		buf = append(buf, 0xff, 0xff, 0xff, 0xff) // NULL
		written := a.write(buf, element)
		if written == nil {
			continue
		}
		buf = written
		binary.BigEndian.PutUint32(buf[start-4:], uint32(len(buf)-start)) //nolint:gosec // a column's length
	}
	return buf, nil
}
