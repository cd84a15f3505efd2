package embeddedpg

import (
	"errors"
	"io"
	"os"
)

// openLog begins a new log file and keeps the one of the start before, so that
// two starts' worth of lines is the most there is.
func openLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// EXCL follows no link that somebody may have put there.
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// logTail returns the last lines of the log, at most 8 KiB.
func logTail(path string) string {
	const most = 8 << 10
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd)
	}
	content, _ := io.ReadAll(io.LimitReader(file, most))
	return lastLines(string(content), 20)
}
