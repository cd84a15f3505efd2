package mockpsp

import (
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json"
)

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
