package citus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// MakeFunctions makes the function of each transaction, or makes it again, for the shards that there are. later: the
// schema is that of a later release. Its functions have other names, and what all of them call is left as it is.
func MakeFunctions(ctx context.Context, conn *pgx.Conn, later bool) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// One at a time: two sessions cannot replace the same function.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('payonce roles', 0))"); err != nil {
			return err
		}
		if !later {
			if _, err := tx.Exec(ctx, File("function.sql")); err != nil {
				return err
			}
		}
		keys, shards, err := readShards(ctx, tx)
		if err != nil {
			return err
		}
		for _, texts := range Transactions() {
			shapes, err := shapesOf(ctx, tx, texts)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, Function(texts, shapes, keys, shards)); err != nil {
				return fmt.Errorf("make %s: %w", FunctionOf(texts), err)
			}
			if _, err := tx.Exec(ctx, `
				SELECT create_distributed_function(p.oid::regprocedure, '$1', colocate_with => 'idempotency_keys')
				FROM pg_proc AS p WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = $1`,
				FunctionOf(texts)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Ready fails if the functions of this program are not there yet. A new release may change a statement, and no table.
func Ready(ctx context.Context, conn *pgx.Conn) error {
	var names, missing []string
	for _, texts := range Transactions() {
		names = append(names, FunctionOf(texts))
	}
	err := conn.QueryRow(ctx, `SELECT ARRAY(SELECT n FROM unnest($1::text[]) AS n WHERE n NOT IN (
		SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace))`,
		pgx.QueryExecModeSimpleProtocol, names).Scan(&missing)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s is not there yet; run api migrate", missing[0])
	}
	return err
}

func readShards(ctx context.Context, tx pgx.Tx) (keys []int64, shards Shards, err error) {
	shards = Shards{}
	rows, err := tx.Query(ctx, "SELECT * FROM payonce_shards()")
	if err != nil {
		return nil, nil, err
	}
	var key, shard int64
	var table string
	_, err = pgx.ForEachRow(rows, []any{&key, &table, &shard}, func() error {
		if shards[key] == nil {
			keys, shards[key] = append(keys, key), map[string]string{}
		}
		shards[key][table] = fmt.Sprintf("%s_%d", table, shard)
		return nil
	})
	return keys, shards, err
}

// shapesOf asks PostgreSQL for the types of the statements.
func shapesOf(ctx context.Context, tx pgx.Tx, texts []string) (shapes []Shape, err error) {
	for _, text := range texts {
		described, err := tx.Conn().Prepare(ctx, "", text)
		if err != nil {
			return nil, err
		}
		s := Shape{Returns: len(described.Fields) > 0}
		const types = `
			SELECT ARRAY(SELECT format_type(oid, NULL) FROM unnest($1::oid[]) WITH ORDINALITY AS t (oid, n) ORDER BY n)`
		if err := tx.QueryRow(ctx, types, described.ParamOIDs).Scan(&s.Parameters); err != nil {
			return nil, err
		}
		shapes = append(shapes, s)
	}
	return shapes, nil
}

// Caller is how the function of a transaction is called.
type Caller struct {
	SQL    string
	Tenant int // which parameter of the first statement has the tenant
}

// Callers are those of all functions, by the texts of the statements one after the other.
func Callers() map[string]Caller {
	all := map[string]Caller{}
	for _, texts := range Transactions() {
		all[strings.Join(texts, "")] = Caller{CallOf(texts), TenantOf(texts[0])}
	}
	return all
}

// Call calls a function. It has all rows before it hands any on. They are pgx.Rows for each of its statements.
func Call(ctx context.Context, conn *pgx.Conn, sql string, args []any, statements int) ([]pgx.Rows, error) {
	var sent [][]byte
	if err := conn.QueryRow(ctx, sql, args...).Scan(&sent); err != nil {
		return nil, err
	}
	rows := make([]pgx.Rows, statements)
	for i := range rows {
		end := slices.IndexFunc(sent, func(row []byte) bool { return row == nil })
		if end < 1 || len(sent[0]) != 8 {
			return nil, errRecord
		}
		affected := int64(binary.BigEndian.Uint64(sent[0])) //nolint:gosec // a number of rows
		if end > 1 && affected != int64(end-1) {
			return nil, errRecord
		}
		rows[i] = &result{types: conn.TypeMap(), sent: sent[1:end],
			tag: pgconn.NewCommandTag(fmt.Sprintf("UPDATE %d", affected))}
		sent = sent[end+1:]
	}
	if len(sent) > 0 {
		return nil, errRecord
	}
	return rows, nil
}

// result is the rows of one statement.
type result struct {
	types  *pgtype.Map
	sent   [][]byte // the rows that follow
	fields []pgconn.FieldDescription
	values [][]byte
	tag    pgconn.CommandTag
	err    error
}

var errRecord = errors.New("a row of a function cannot be read")

// ofOurs is the first OID that PostgreSQL does not give itself. Of the types that are made by migrations, a table of
// tenants has an enum: the worker sends its label, under an OID that means something else here.
const ofOurs = 16384

// Next reads a record: the number of its fields, and of each the OID of its type, its length, and its bytes.
func (r *result) Next() bool {
	if len(r.sent) == 0 || r.err != nil {
		return false
	}
	row := r.sent[0]
	r.sent, r.fields, r.values = r.sent[1:], r.fields[:0], r.values[:0]
	word := func() (v uint32) {
		if len(row) < 4 {
			r.err = errRecord
			return 0
		}
		v, row = binary.BigEndian.Uint32(row), row[4:]
		return v
	}
	for n := word(); n > 0 && r.err == nil; n-- {
		oid, length := word(), int32(word()) //nolint:gosec // -1 is NULL
		if oid >= ofOurs {
			oid = pgtype.TextOID
		}
		var value []byte
		if length >= 0 && r.err == nil {
			if len(row) < int(length) {
				r.err = errRecord
				return false
			}
			value, row = row[:length:length], row[length:]
		}
		r.fields = append(r.fields, pgconn.FieldDescription{DataTypeOID: oid, Format: pgtype.BinaryFormatCode})
		r.values = append(r.values, value)
	}
	return r.err == nil
}

func (r *result) Close()                                       {}
func (r *result) Err() error                                   { return r.err }
func (r *result) Conn() *pgx.Conn                              { return nil }
func (r *result) TypeMap() *pgtype.Map                         { return r.types }
func (r *result) CommandTag() pgconn.CommandTag                { return r.tag }
func (r *result) FieldDescriptions() []pgconn.FieldDescription { return r.fields }
func (r *result) RawValues() [][]byte                          { return r.values }
func (r *result) Values() ([]any, error)                       { return nil, errors.ErrUnsupported }
func (r *result) Scan(to ...any) error {
	return pgx.ScanRow(r.types, r.fields, r.values, to...)
}
