package meter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Memory is what a process holds. Bytes.
type Memory struct {
	RSS int64 // pages in memory, shared ones in full
	PSS int64 // pages in memory, shared ones in parts by how many processes share them; 0 where we may not look
}

// Memory reads what one process holds. Its PSS takes Linux 4.14, and the same user or root.
func (m *Meter) Memory(pid int) (Memory, error) {
	dir := strconv.Itoa(pid)
	text, err := fs.ReadFile(m.proc, dir+"/smaps_rollup")
	if err == nil {
		return parseMemory(text)
	}
	pages, err := fs.ReadFile(m.proc, dir+"/statm")
	if err != nil {
		return Memory{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	fields := strings.Fields(string(pages))
	if len(fields) < 2 {
		return Memory{}, fmt.Errorf("memory of process %d: statm has %d fields", pid, len(fields))
	}
	resident, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return Memory{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return Memory{RSS: resident * int64(os.Getpagesize())}, nil
}

func parseMemory(text []byte) (Memory, error) {
	rss, err := kilobytes(text, "Rss")
	if err != nil {
		return Memory{}, err
	}
	pss, err := kilobytes(text, "Pss")
	if err != nil {
		return Memory{}, err
	}
	return Memory{RSS: rss, PSS: pss}, nil
}

// TreePSS is the sum of the PSS of a process and its descendants. Of a postmaster: what the PostgreSQL server holds,
// its shared buffers counted once, as far as they were touched. (A sum of RSS would count them once per connection.)
func (m *Meter) TreePSS(root int) (int64, error) {
	all, err := m.processes()
	if err != nil {
		return 0, err
	}
	if _, found := all[root]; !found {
		return 0, fmt.Errorf("memory of process %d: %w", root, fs.ErrNotExist)
	}
	var sum int64
	for _, pid := range append(below(all, root), root) {
		held, err := m.Memory(pid)
		switch {
		case err != nil && gone(err) && pid != root:
			continue
		case err != nil:
			return 0, err
		case held.PSS == 0 && held.RSS > 0:
			return 0, fmt.Errorf("memory of process %d: %w", pid, errNoPSS)
		}
		sum += held.PSS
	}
	return sum, nil
}

// errNoPSS says that only whole pages are told.
var errNoPSS = errors.New("its share of common pages is not to be seen: that takes its user or root, and Linux 4.14")
