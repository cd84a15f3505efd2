package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"
)

// Journal is a Store in a file that is only appended to. A line is a checksum, a space, and a Record as JSON; the last
// line of an intent counts. Each line is on the disk (fsync) before the next one is written, so at most the last line
// can be torn by a crash. Nothing was sent because of a torn line. The intent's line before it counts again: the intent
// is as it was before that Create or Update.
//
// The journal keeps ended intents, because they answer a repeated Pay. It grows by about a kilobyte per intent, and is
// held in memory. One process at a time can open it. It contains keys and customers' data: its mode is 0600.
type Journal struct {
	mu      sync.Mutex
	file    *os.File
	sync    func() error // of the file
	records map[string]Record
	order   []string // intents, oldest first
	broken  error    // after a failed write, nobody knows what is on the disk
}

// Errors of the journal.
var (
	ErrLocked  = errors.New("another process has the journal open")
	ErrDamaged = errors.New("the journal is damaged")
	errSum     = errors.New("the checksum is wrong")
)

// OpenJournal opens the file, or makes it, and locks it. It cuts off a last line that a crash has left: one that has no
// end, or one with a wrong checksum that has zero bytes in it, since a disk may write the end of a line and lose its
// middle. Any other line that cannot be read is ErrDamaged: to go on without it could mean to forget a key that was
// sent.
func OpenJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{file: file, sync: file.Sync, records: map[string]Record{}}
	// Nothing is read or cut before the lock is held: the torn line may be one that another process is writing.
	err = lock(file)
	if err == nil {
		err = j.read()
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, err), file.Close())
	}
	return j, nil
}

// syncDir makes the file's name durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (j *Journal) read() error {
	raw, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(raw, '\n') + 1
	number, next := 0, 0
	for line := range bytes.Lines(raw[:whole]) {
		number, next = number+1, next+len(line)
		record, err := parseLine(line)
		if errors.Is(err, errSum) && next == len(raw) && bytes.IndexByte(line, 0) >= 0 {
			whole -= len(line)
			break
		}
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrDamaged, number, err)
		}
		if before, known := j.records[record.Intent]; known && before.Key != record.Key {
			return fmt.Errorf("%w: line %d: a second key for intent %s", ErrDamaged, number, record.Intent)
		}
		j.remember(record)
	}
	if whole < len(raw) {
		if err := errors.Join(j.file.Truncate(int64(whole)), j.sync()); err != nil {
			return fmt.Errorf("cut the torn line: %w", err)
		}
	}
	_, err = j.file.Seek(int64(whole), io.SeekStart)
	return err
}

func (j *Journal) remember(record Record) {
	if _, known := j.records[record.Intent]; !known {
		j.order = append(j.order, record.Intent)
	}
	j.records[record.Intent] = record
}

// line writes a record as it stands in the file. JSON has no bytes that are not UTF-8: another intent would be read
// back.
func line(record Record) ([]byte, error) {
	if !utf8.ValidString(record.Intent) || !utf8.ValidString(record.Key) {
		return nil, fmt.Errorf("intent %q: the ID or the key is not valid UTF-8", record.Intent)
	}
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text), nil
}

// parseLine reads a line with its end.
func parseLine(raw []byte) (Record, error) {
	sum, text, found := strings.Cut(strings.TrimSuffix(string(raw), "\n"), " ")
	if !found || sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) {
		return Record{}, errSum
	}
	var record Record
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&record); err != nil {
		return Record{}, err
	}
	switch record.State {
	case Open, Unused, Blocked, Ended:
	default:
		return Record{}, fmt.Errorf("the state %q is not known", record.State)
	}
	if record.Intent == "" || record.Key == "" || len(record.Body) == 0 {
		return Record{}, errors.New("intent, key or body is missing")
	}
	return record, nil
}

// Create is Store's.
func (j *Journal) Create(ctx context.Context, fresh Record) (Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if stored, known := j.records[fresh.Intent]; known {
		return stored, nil
	}
	return fresh, j.append(ctx, fresh)
}

// Update is Store's.
func (j *Journal) Update(ctx context.Context, changed Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	stored, known := j.records[changed.Intent]
	if !known || stored.Key != changed.Key {
		return fmt.Errorf("intent %s is not stored with this key", changed.Intent)
	}
	if stored.State == Ended {
		return nil
	}
	return j.append(ctx, changed)
}

// append makes a record durable, and then remembers it. After a failed write it refuses all others: fsync reports an
// error once, and what it could not write is then gone or not.
func (j *Journal) append(ctx context.Context, record Record) error {
	if err := errors.Join(ctx.Err(), j.broken); err != nil {
		return err
	}
	text, err := line(record)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(text); err != nil {
		j.broken = fmt.Errorf("the journal could not be written: %w", err)
		return j.broken
	}
	if err := j.sync(); err != nil {
		j.broken = fmt.Errorf("the journal could not be made durable: %w", err)
		return j.broken
	}
	j.remember(record)
	return nil
}

// Unfinished is Store's.
func (j *Journal) Unfinished(context.Context) ([]Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var open []Record
	for _, intent := range j.order {
		if record := j.records[intent]; record.State == Open {
			open = append(open, record)
		}
	}
	return open, nil
}

// Close unlocks the journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken == nil {
		j.broken = os.ErrClosed
	}
	return j.file.Close()
}
