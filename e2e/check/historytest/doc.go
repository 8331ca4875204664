// Package historytest tells made-up trials as histories, for the tests of judges and reports.
//
// It imports the standard library, chaos/history and chaos/plan. Nothing but tests may import it.
package historytest
