package mockpsp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-json-experiment/json"
)

// journal is a file of one JSON line for each record, only ever appended to, locked against a second process: the
// ledger's, and beside it that of the webhooks that are done.
type journal struct {
	file *os.File
}

// openJournal opens or creates the file and hands each record in it to restore. A torn last line, the trace of a crash
// in the middle of a write that nobody was told of, is cut off. Any other damage is an error: a ledger that silently
// forgets charges is worse than none.
func openJournal[T any](path string, log *slog.Logger, restore func(*T) error) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := prepareJournal(file, log, restore); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), unlockAndClose(file))
	}
	return &journal{file}, nil
}

// unlockAndClose unlocks explicitly: closing alone would leave the lock with a child that some other goroutine is just
// forking, until that child execs.
func unlockAndClose(file *os.File) error {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) // of a file that is closed already, there is nothing to unlock
	return file.Close()
}

func prepareJournal[T any](file *os.File, log *slog.Logger, restore func(*T) error) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return errors.New("another mock PSP is using this ledger")
		}
		return fmt.Errorf("lock: %w", err)
	}
	intact, err := replay(file, restore)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if torn := info.Size() - intact; torn > 0 {
		log.Warn("ledger ends in a torn line, cut off", "bytes", torn)
		if err := file.Truncate(intact); err != nil {
			return fmt.Errorf("cut off torn line: %w", err)
		}
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return syncDirectory(filepath.Dir(file.Name()))
}

// replay reads the file and returns where its last intact line ends.
func replay[T any](file io.Reader, restore func(*T) error) (intact int64, err error) {
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return intact, nil // what follows the last newline was never acknowledged
		}
		if err != nil {
			return 0, fmt.Errorf("read line %d: %w", number, err)
		}
		var r T
		if err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); err != nil {
			if _, end := reader.Peek(1); errors.Is(end, io.EOF) {
				return intact, nil
			}
			return 0, fmt.Errorf("line %d is damaged: %w", number, err)
		}
		if err := restore(&r); err != nil {
			return 0, fmt.Errorf("line %d: %w", number, err)
		}
		intact += int64(len(line))
	}
}

// syncDirectory makes a new file's name durable.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// append returns when the lines are on disk. After an error they may be there, in part or whole.
func (j *journal) append(lines []byte) error {
	if err := j.note(lines); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// note returns when the lines would survive this process, but not the machine.
func (j *journal) note(lines []byte) error {
	if _, err := j.file.Write(lines); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

func (j *journal) close() error { return unlockAndClose(j.file) }

// webhookEnd is how a webhook came to its end. One that has none is pending.
type webhookEnd string

const (
	endDelivered webhookEnd = "delivered"
	endGivenUp   webhookEnd = "givenUp"
	endDropped   webhookEnd = "dropped"
)

// webhooksSuffix names the file beside the ledger.
const webhooksSuffix = ".webhooks"

// webhookEnds counts the webhooks, and keeps the ended ones in a file beside the ledger, so that a restart knows what
// is left to send. The file has one line of some 60 bytes for each entry at most, a small part of the ledger.
//
// Its lines are not synced: they survive the death of the process, and where the machine dies, a webhook may be sent
// again, which receivers expect. The entry was synced; that none is lost does not hang on this file.
type webhookEnds struct {
	file    *journal // nil when the ledger lives in memory only, or after a failed write
	pending int
	counts  map[webhookEnd]int
}

type webhookLine struct {
	EntryID string     `json:"entryId"`
	End     webhookEnd `json:"end"`
}

// open reads the file and returns the subjects whose webhook has not ended, oldest first. Without a path there is no
// file.
func (e *webhookEnds) open(path string, log *slog.Logger, all []Subject) (open []Subject, err error) {
	e.counts = map[webhookEnd]int{}
	ended := map[string]webhookEnd{}
	if path != "" {
		e.file, err = openJournal(path, log, func(line *webhookLine) error {
			switch line.End {
			case endDelivered, endGivenUp, endDropped:
				ended[line.EntryID] = line.End
				return nil
			default:
				return fmt.Errorf("unknown end of a webhook: %q", line.End)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for _, subject := range all {
		if how, ok := ended[subject.SubjectID()]; ok {
			e.counts[how]++
		} else {
			open = append(open, subject)
		}
	}
	return open, nil
}

// note ends a pending webhook. After an error nothing more goes to the file: a line after half a line would be damage
// that the next start cannot tell from worse.
func (e *webhookEnds) note(entryID string, how webhookEnd) error {
	e.pending--
	e.counts[how]++
	if e.file == nil {
		return nil
	}
	line, err := json.Marshal(webhookLine{entryID, how})
	if err == nil {
		err = e.file.note(append(line, '\n'))
	}
	if err != nil {
		_ = e.file.close()
		e.file = nil
	}
	return err
}

func (e *webhookEnds) close() error {
	if e.file == nil {
		return nil
	}
	return e.file.close()
}
