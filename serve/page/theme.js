// Sets the chosen colors before the page is painted. Without a choice, those of the system are used.
'use strict';
try {
  const theme = localStorage.getItem('theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is off */ }
