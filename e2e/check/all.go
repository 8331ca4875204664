package check

// All returns every check, in alphabetical order. A new one is one new file and one line here.
func All() []Check {
	return []Check{
		AttachOrder(),
		Checksums(),
		Coverage(),
		Damage(),
		DetachInUse(),
		DetachOrder(),
		Integrity(),
		MountResidue(),
		Mounts(),
		Order(),
		PDBHonoured(),
		PodIdentity(),
		ResidueAudit(),
		RightVolume(),
		Rows(),
		SetBinding(),
		SetClaims(),
		SetIdentity(),
		SetOnDelete(),
		SetPartition(),
		SetPolicy(),
		SetPromotion(),
		SetStatus(),
		SetUpdate(),
		Settle(),
		StageOrder(),
		UnpublishInUse(),
		UpgradeOrder(),
		VersionReached(),
		Witness(),
	}
}
