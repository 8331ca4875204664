package kind

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	kindlog "sigs.k8s.io/kind/pkg/log"
)

// kindLogger passes kind's messages to slog. Kind announces each phase twice, at its begin with a bullet and at its end
// with a tick or a cross: a begin is information, a tick is detail, a cross is a warning.
type kindLogger struct {
	log    *slog.Logger
	detail bool // Of the levels of InfoLogger above 0.
}

var _ kindlog.Logger = kindLogger{}

// Warn logs for those who look closer: what kind warns of, such as cgroup v1, the doctor says in its own words.
func (l kindLogger) Warn(message string) { l.log.Info(plain(message)) }

func (l kindLogger) Warnf(format string, args ...any) { l.Warn(fmt.Sprintf(format, args...)) }

func (l kindLogger) Error(message string) { l.log.Error(plain(message)) }

func (l kindLogger) Errorf(format string, args ...any) { l.Error(fmt.Sprintf(format, args...)) }

// V returns the logger of a level: 0 is what kind tells its users, the others are detail.
func (l kindLogger) V(level kindlog.Level) kindlog.InfoLogger {
	return kindLogger{log: l.log, detail: level > 0}
}

func (l kindLogger) Enabled() bool {
	return !l.detail || l.log.Enabled(context.Background(), slog.LevelDebug)
}

func (l kindLogger) Infof(format string, args ...any) { l.Info(fmt.Sprintf(format, args...)) }

func (l kindLogger) Info(message string) {
	level := slog.LevelInfo
	switch trimmed := strings.TrimSpace(message); {
	case l.detail, strings.HasPrefix(trimmed, "✓"):
		level = slog.LevelDebug
	case strings.HasPrefix(trimmed, "✗"):
		level = slog.LevelWarn
	}
	if text := plain(message); text != "" {
		l.log.Log(context.Background(), level, text)
	}
}

// plain takes kind's pictures and bullets out of a message; a tick and a cross become words.
func plain(message string) string {
	message = strings.NewReplacer("✗", "failed:", "✓", "done:").Replace(message)
	message = strings.Map(func(r rune) rune {
		if r > 0x2000 && r != '≤' {
			return -1
		}
		return r
	}, message)
	message = strings.TrimSuffix(strings.TrimSpace(message), "...")
	return strings.Join(strings.Fields(message), " ")
}
