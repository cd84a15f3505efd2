package embeddedpg

import "os"

// memory is a file system in memory, on Linux.
const memory = "/dev/shm"

// ScratchDir is the place for clusters that nobody keeps: in memory where there is room, unless TMPDIR names another
// place. Tests create and drop databases of 600 files each, and ext4 searches for a free inode past all that were freed
// in the last seconds: half of the CPU time of all tests went there.
func ScratchDir() string {
	if os.Getenv("TMPDIR") == "" && memoryHasRoom() {
		return memory
	}
	return os.TempDir()
}

// ScratchDirs are all places that ScratchDir may have named so far.
func ScratchDirs() []string { return []string{os.TempDir(), memory} }
