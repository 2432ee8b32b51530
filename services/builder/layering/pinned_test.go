package layering_test

import "slipway.dev/services/builder/layering"

// pinnedLayer is a layer that must stay what it is.
type pinnedLayer struct {
	file           string
	compression    layering.Compression
	digest, diffID string
}

func pinned() []pinnedLayer {
	return []pinnedLayer{
		{"_openmp_mutex-4.5-2_gnu.tar.bz2", layering.Gzip, "fd8899f10aa3bf47464938518f580f795c534e815220857d492286a209c6556a", "c9076616b3ed467b0e27072360460da11b32761cf9145c5050fd3d4a7f6a8dc6"},
		{"archspec-0.2.2-pyhd8ed1ab_0.conda", layering.Gzip, "5f8e2e8154445df010765678d2b8105119e9dcb5f06a5119b75be2c4c0d89fd0", "c5612761415020358736898de47b9607a3e649d5bcb162630bf56631b0fa1b8e"},
		{"c-ares-1.21.0-h31becfc_0.conda", layering.Gzip, "7763251f483beeb8816726372f3403d2731c6e551b9b26e9e096519f9dd20949", "5523a72e19f5c82c887bc369142c9988f48040b6e8eafcec4a39bc83335c699b"},
		{"cffi-1.16.0-py310hce94938_0.conda", layering.Gzip, "f25721ff9d4cd7ea3618d7733cb4746ae939bcdd6b36d19285c66c5097b75ea0", "b86b9bc74b2871191b1b93de711b70d5363a92ec6839b6fd20d97f7eba78cc84"},
		{"libcurl-8.4.0-h4e8248e_0.conda", layering.Gzip, "24b1f3a4ce999730c6b08d4ba72e9bfdddcd9681abd9471fbc65b4877f36103c", "ced1d19064848ce432ff976f4ea4806b9f8c45e8de43b14464e10ebf20693aee"},
		{"libedit-3.1.20191231-he28a2e2_2.tar.bz2", layering.Gzip, "2a7ead82c0af30165aa7d8337893a8adc04dce35360205cc66f24246e506a76c", "3676621a87bd7082fc406aac107ea9ef35ca66f1874bf77461eca3c9f81b4f70"},
		{"libzlib-1.2.13-h31becfc_5.conda", layering.Gzip, "1ab3b0162fc06829469be49171f7138d5e1849bb6a27e325dd791e64da5e3d46", "343fa36e0f9f84595e56addfb5a0e6e6710cfaa1cbe733b5b064088ed6f48b70"},
		{"lz4-c-1.9.4-hd600fc2_0.conda", layering.Gzip, "efcb52cdc3f3b1dcd23e9d6273449b8e4af09610aa598ddc0efebc08c0c7c3de", "a26eb032701cc3b877d6df57e8a780af2b44a629fd56ed49f39bd044f5dbc935"},
		{"mock-2.0.0-py37_1000.tar.bz2", layering.Gzip, "48e6c45168fbddba958ab7dbf79c4af1ba12b788e8736214f11e44c51093c07d", "126c0a1f7c4ea75c889521384c4697515b41b520a9206fb687a11beeb7daa5e9"},
		{"requests-2.31.0-pyhd8ed1ab_0.conda", layering.Gzip, "7c5c9357eee77f32566c30a387c1aa98352986dd188d29349fc7b591be45db35", "50514a33c451cca29c5659ff69b12136759c3ff1a89c5be6602309655de3a6b0"},
		{"requests-2.31.0-pyhd8ed1ab_0.conda", layering.Zstd, "e49e77cacdd915ac6b11bd1dd4871a8a8b186257d170dc5f7dd0c420c039fd37", "50514a33c451cca29c5659ff69b12136759c3ff1a89c5be6602309655de3a6b0"},
	}
}
