package check

// All returns every check, in alphabetical order. A new one is one new file and one line here.
func All() []Check {
	// tidy:list
	return []Check{
		Checksums(),
		Coverage(),
		Mounts(),
		Order(),
		Rows(),
		Settle(),
	}
}
