//! The words from which the demo makes names and paths.

pub(super) const ADJECTIVES: [&str; 24] = [
    "amber", "blue", "bright", "central", "civic", "coastal", "copper", "eastern", "evening",
    "fair", "golden", "green", "harbour", "hidden", "morning", "mountain", "new", "northern",
    "old", "quiet", "river", "silver", "southern", "western",
];

pub(super) const PLACES: [&str; 24] = [
    "alder", "birch", "bridge", "castle", "dale", "elm", "ferry", "glen", "hollow", "isle",
    "junction", "kirk", "lake", "marsh", "mill", "oak", "port", "quay", "ridge", "spring", "tower",
    "vale", "wharf", "yew",
];

pub(super) const PAPERS: [&str; 12] = [
    "chronicle",
    "courier",
    "dispatch",
    "echo",
    "gazette",
    "herald",
    "journal",
    "mercury",
    "observer",
    "post",
    "times",
    "tribune",
];

pub(super) const MINISTRIES: [&str; 16] = [
    "agriculture",
    "archives",
    "customs",
    "education",
    "elections",
    "energy",
    "environment",
    "finance",
    "health",
    "housing",
    "justice",
    "parliament",
    "planning",
    "statistics",
    "transport",
    "treasury",
];

pub(super) const GOODS: [&str; 16] = [
    "bicycles", "books", "cameras", "carpets", "ceramics", "clocks", "coats", "kettles", "lamps",
    "maps", "pianos", "radios", "seeds", "shoes", "tools", "toys",
];

pub(super) const FACULTIES: [&str; 12] = [
    "astronomy",
    "biology",
    "chemistry",
    "computing",
    "economics",
    "geology",
    "history",
    "law",
    "linguistics",
    "mathematics",
    "medicine",
    "physics",
];

pub(super) const SUBJECTS: [&str; 24] = [
    "airport",
    "budget",
    "bridge",
    "council",
    "dam",
    "election",
    "ferry",
    "festival",
    "fishery",
    "flood",
    "harvest",
    "hospital",
    "housing",
    "library",
    "lighthouse",
    "museum",
    "railway",
    "school",
    "storm",
    "strike",
    "theatre",
    "tunnel",
    "water",
    "winter",
];

pub(super) const EVENTS: [&str; 16] = [
    "anniversary",
    "closes",
    "debate",
    "delayed",
    "explained",
    "in-numbers",
    "inquiry",
    "opens",
    "photos",
    "plan",
    "report",
    "reopens",
    "results",
    "review",
    "timetable",
    "vote",
];

pub(super) const SECTIONS: [&str; 12] = [
    "annual-reports",
    "circulars",
    "consultations",
    "forms",
    "guidance",
    "hearings",
    "legislation",
    "minutes",
    "notices",
    "press-releases",
    "statistics",
    "tenders",
];
