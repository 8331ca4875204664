package plan

import "fmt"

// FlushLog returns Workload.FlushLogAtTrxCommit or what it is when it is left out.
func (w Workload) FlushLog() int { return given(w.FlushLogAtTrxCommit) }

// SyncLog returns Workload.SyncBinlog or what it is when it is left out.
func (w Workload) SyncLog() int { return given(w.SyncBinlog) }

// Durable reports that no commit is acknowledged before it is on disk.
func (w Workload) Durable() bool { return w.FlushLog() == 1 && w.SyncLog() == 1 }

func given(value *int) int {
	if value == nil {
		return 1
	}
	return *value
}

// durability holds the settings that say what a commit is worth against the rules.
func (v *validator) durability(w Workload) {
	for _, setting := range []struct {
		name  string
		value *int
		most  int
	}{
		{"flushLogAtTrxCommit", w.FlushLogAtTrxCommit, 2},
		{"syncBinlog", w.SyncBinlog, 1},
	} {
		field := "workload." + setting.name
		switch {
		case setting.value == nil:
		case w.Light:
			v.errs.add(field, "leave it out", "a light workload has no database")
		default:
			v.within(field, *setting.value, 0, setting.most)
		}
	}
}

// durabilityNote says what a commit is worth, "" when nothing is to be said.
func (w Workload) durabilityNote() string {
	if w.Durable() {
		return ""
	}
	return fmt.Sprintf("not durable: innodb_flush_log_at_trx_commit=%d, sync_binlog=%d", w.FlushLog(), w.SyncLog())
}
