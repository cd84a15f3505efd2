// Package docs has the page of the crash windows for the demo, which shows what the page says of each window. It
// refuses to know what a window is and where it lies in the code. The demo finds a window's row by its number.
package docs

import _ "embed"

// CrashWindows is docs/crash_windows.md.
//
//go:embed crash_windows.md
var CrashWindows string
